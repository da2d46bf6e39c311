"""`bleurt bench`: every way on the same weights, ratios of medians, the cost of training, what is printed."""

from pathlib import Path

import pytest
import torch

from pipeline.core.errors import BleurtError
from pipeline.scoring.cli import bench
from pipeline.scoring.scorer import BleurtScorer


def test_every_way_gives_the_same_scores(scorer: BleurtScorer, references: list[str], candidates: list[str]) -> None:
    pairs = list(zip(references, candidates, strict=True))
    found = bench.ways(scorer, pairs)
    assert list(found) == ["ours", "transformers' pipeline, batches of 32", "padding to 64"]
    expected = scorer.score(references, candidates)
    count, classify = found["transformers' pipeline, batches of 32"]
    assert count == 5 and [one["score"] for one in classify()] == pytest.approx(expected, abs=1e-5)
    count, padded = found["padding to 64"]
    assert count == 5 and padded() == pytest.approx(expected, abs=1e-5)


def test_the_figures_are_ratios_of_medians(
    checkpoint: Path, references: list[str], candidates: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "_seconds_of", lambda arguments, threads: 2.0)
    monkeypatch.setattr(bench, "_first_score", lambda checkpoint, threads: 3.5)
    monkeypatch.setattr(bench, "_memory", lambda checkpoint, count, threads: count * 2**20)
    monkeypatch.setattr(bench, "_interleaved", lambda ways, sizes, rounds: ({"ours": 0.5, "theirs": 2.0}, 1e6))
    pairs = list(zip(references, candidates, strict=True))
    rated = dict.fromkeys(pairs, 1.0)
    found = bench.bench(str(checkpoint), rated, threads=torch.get_num_threads(), rounds=3, memory_pairs=20_000)
    assert (found["pairs_a_second"], found["times_faster"]) == (2.0, {"theirs": 4.0})
    assert found["start_up_over_torch_seconds"] == 1.5
    text = bench.render({**found, "training": {"step_seconds": 1.5, "bare_seconds": 1.25, "ratio": 1.2}})
    assert "training step 1.500 s, bare forward and backward 1.250 s, ratio 1.20" in text
    assert "ours is 4.00 times as fast as theirs" in text
    assert "memory: 10,000 MiB at 10,000 pairs, 20,000 MiB at 20,000 pairs" in text


def test_pairs_are_distinct(tmp_path: Path) -> None:
    file = tmp_path / "ratings.tsv"
    file.write_text("reference\tcandidate\tscore\na\tb\t1\na\tb\t2\na\tc\t3\n", encoding="utf-8")
    assert list(bench.pairs_of(file)) == [("a", "b"), ("a", "c")]


def test_a_process_that_fails_is_named() -> None:
    with pytest.raises(BleurtError, match=r"^-c raise SystemExit\('no'\) failed: no$"):
        bench._child(["-c", "raise SystemExit('no')"], 1)
    assert 1 < bench.peak_bytes() / 2**20 < 2**20
