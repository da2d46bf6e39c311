"""What a run took stands in a page of its own, so that the results of two runs have the same bytes."""

import json
from dataclasses import fields
from pathlib import Path

import pytest
from tiny_outputs import Checker, make

from pipeline.report.gather import Cost, Folders, costs


def note(root: Path, out: Path, **facts: float | str) -> None:
    (root / ".work").mkdir(exist_ok=True)
    with (root / ".work" / "times.jsonl").open("a") as lines:
        lines.write(json.dumps({"out": str(out), "cpu_seconds": 1.0, "peak_bytes": 1, **facts}) + "\n")


def test_what_the_run_took_stands_beside_the_results_and_not_in_them(
    full: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(full)
    found = []
    for seconds, device, processor in ((75.4, "cpu", "a small one"), (3700.0, "cuda", "a large one")):
        note(
            full, full / "finetune" / "all", seconds=seconds, training_seconds=seconds, device=device, precision="bf16"
        )
        machine = {"processor": processor, "packages": {"torch": "9.9.9"}}
        monkeypatch.setattr("pipeline.core.runtime.record", lambda machine=machine: machine)
        monkeypatch.setattr("pipeline.report.gather.commit", lambda processor=processor: f"commit of {processor}")
        make(full)
        out = {file.relative_to(full): file.read_bytes() for file in (full / "reports").rglob("*") if file.is_file()}
        page = out.pop(Path("reports/run.html")).decode()
        assert processor in page and "torch" in page and "9.9.9" in page and "commit of" in page
        assert f"{device}, bf16" in page and ("1 min 15 s" if device == "cpu" else "1 h 1 min") in page
        checker = Checker()
        checker.feed(page)
        assert (checker.open, checker.addresses) == ([], ["report.html"])
        found.append(out)
    assert {Path("reports") / name for name in ("report.html", "headline.txt", "metrics.json")} < set(found[0])
    assert found[0] == found[1]


def test_a_page_without_notes_says_so(full: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(full)
    make(full)
    assert "No stage left a note of its time here." in (full / "reports" / "run.html").read_text(encoding="utf-8")


def test_the_cost_of_each_stage_is_that_of_its_last_run(full: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(full)
    lines = [
        {"out": "data/extract", "seconds": 99.0, "cpu_seconds": 1.0, "peak_bytes": 1},
        {"out": "data/extract", "seconds": 61.0, "cpu_seconds": 120.0, "peak_bytes": 3 * 2**30},
        {"out": "data/label/bleu", "seconds": 2.0, "cpu_seconds": 2.0, "peak_bytes": 2**20},
        {"out": "data/pretrain/all", "training_seconds": 40.0, "device": "cpu", "precision": "bf16"},
        {"out": "data/pretrain/all", "seconds": 50.0, "cpu_seconds": 60.0, "peak_bytes": 1, "unknown": 3},
        {"out": "data/pretrain/only_bleu", "seconds": 50.0, "cpu_seconds": 50.0, "peak_bytes": 1},
        {"out": "data/finetune/all", "training_seconds": 40.0},  # killed before its end
        {"out": "elsewhere", "seconds": 7000.0, "cpu_seconds": 7000.0, "peak_bytes": 1},
    ]
    (full / ".work").mkdir()
    (full / ".work" / "times.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"out": "da')
    folders = Folders(**{field.name: Path("data") / field.name for field in fields(Folders)})
    assert list(costs(folders, ["bleu", "all"])) == [
        Cost("extract", 61.0, 120.0, 3 * 2**30),
        Cost("label bleu", 2.0, 2.0, 2**20),
        Cost("pretrain all", 50.0, 60.0, 1, 40.0, "cpu", "bf16"),
    ]
