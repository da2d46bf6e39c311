"""`bleurt kernels`: the ways agree, and ratios of medians are printed."""

import json
from pathlib import Path

import pytest
from tiny_filler import save_tiny_filler

from pipeline.scoring.__main__ import main
from pipeline.scoring.cli import kernels


def test_it_prints_ratios_and_float32_keeps_all_hypotheses(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BLEURT_DEVICE", "cpu")
    file = tmp_path / "ratings.tsv"
    rows = ["the cat sat on the mat\ta cat sat on the mat\t1", "the red dog ran\tthe dog\t0.5"]
    file.write_text("\n".join(["reference\tcandidate\tscore", *rows, ""]), encoding="utf-8")
    filler = save_tiny_filler(tmp_path / "filler")
    flags = ["--encoder", str(checkpoint), "--filler", str(filler), "--rounds", "1"]
    monkeypatch.setattr(kernels, "_labelling", lambda encoder, pairs: {"bert-score": pairs.copy, "ours": pairs.copy})
    assert main(["kernels", "--ratings", str(file), *flags]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["bertscore"]["seconds"]) == ["bert-score", "ours"]
    assert list(found["training_step"]["times_faster"]) == ["torch's own", "chosen"]
    equal = found["mask_fill"]["texts_with_equal_hypotheses"]
    assert (list(equal), equal["plain"], equal["float32"]) == (["plain", "float32", "bf16"], 2, 2)


def test_ratios_are_of_medians_and_ways_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0, 4, 0, 1, 0, 6, 0, 2, 0, 5, 0, 9])
    monkeypatch.setattr(kernels.time, "process_time", lambda: next(times))
    order: list[str] = []
    ways = {name: (lambda name=name: order.append(name)) for name in ("first", "second")}
    found = kernels.measured(ways, 3, one_thread=True)
    assert order == ["first", "second"] * 4
    assert found == {"seconds": {"first": 5, "second": 2}, "times_faster": {"first": 1.0, "second": 2.5}}


def test_a_missing_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "--ratings", "no/such.tsv"]) == 2
    assert "--ratings: there is no no/such.tsv" in capsys.readouterr().err
