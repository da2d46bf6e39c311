"""`bleurt selftest`: passes where scores hold, and says what is off where they do not."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from pipeline.scoring.__main__ import main
from pipeline.scoring.cli.selftest import FILE, PAIRS, check
from pipeline.scoring.scorer import BleurtScorer


@pytest.fixture
def folder(checkpoint: Path, tmp_path: Path) -> Path:
    """A checkpoint that may be written to."""
    return Path(shutil.copytree(checkpoint, tmp_path / "checkpoint"))


def selftest(folder: Path, *options: str) -> int:
    return main(["selftest", "-c", str(folder), "--device", "cpu", *options])


def test_the_golden_pairs_are_distinct() -> None:
    assert len(set(PAIRS)) == len(PAIRS) == 21


def test_a_sound_checkpoint_passes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    threads = torch.get_num_threads()
    assert selftest(folder) == 0
    assert torch.get_num_threads() == threads
    found = capsys.readouterr()
    assert found.out.splitlines()[-1] == "PASS" and found.out.count("PASS") > 6
    assert f"no {FILE} in {folder}" in found.err


def test_golden_scores_are_written_and_held(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert selftest(folder, "--write") == 0
    assert selftest(folder) == 0
    content = json.loads((folder / FILE).read_text(encoding="utf-8"))
    assert [(pair["reference"], pair["candidate"]) for pair in content["pairs"]] == list(PAIRS)
    content["pairs"][3]["score"] += 2e-4
    (folder / FILE).write_text(json.dumps(content), encoding="utf-8")
    capsys.readouterr()
    assert selftest(folder) == 1
    assert capsys.readouterr().out.splitlines()[-1] == f"OFF: the scores of {FILE}"


def test_golden_scores_of_other_weights_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    selftest(folder, "--write")
    weights = bytearray((folder / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (folder / "model.safetensors").write_bytes(weights)
    assert selftest(folder) == 2
    (folder / FILE).write_text("[]", encoding="utf-8")
    assert selftest(folder) == 2
    first, second = capsys.readouterr().err.splitlines()[-2:]
    assert first.endswith("was written for other weights than those that lie beside it.")
    assert second.endswith("does not hold golden pairs; write it again with bleurt selftest --write.")


def test_scores_that_depend_on_batch_order_or_threads_are_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = BleurtScorer(folder, device="cpu")
    score = BleurtScorer.score

    def off(self: BleurtScorer, references: Any, candidates: Any, batch_size: int | None = None) -> list[float]:
        error = (batch_size == 7) + (candidates[0] != PAIRS[0][1]) + (torch.get_num_threads() == 2)
        return [value + 3e-4 * error for value in score(self, references, candidates, batch_size)]

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.setattr(BleurtScorer, "score", off)
    found = {one.what: one.change for one in check(scorer) if not one.passed}
    torch.set_num_threads(before)
    assert list(found) == ["batches of 7", "reversed order", "shuffled order", "threads: 2"]
    assert found["batches of 7"] == pytest.approx(3e-4, abs=1e-5)
