"""Where a run keeps its state: another input, setting or line of code that the stage can run is another folder."""

from pathlib import Path

import pytest

from pipeline.core import modules, runtime, work
from pipeline.training.loop import History
from pipeline.training.runs import note_training, state_folder, write_training


def test_a_state_is_found_again_only_by_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "pairs"
    file.write_text("one")
    first = state_folder("pretrain", "all", [file], {"steps": 2})
    assert first.parent == work.WORK / "pretrain" and first.name.startswith("all-")
    assert state_folder("pretrain", "all", [file], {"steps": 2}) == first
    others = [state_folder("pretrain", "none", [file], {"steps": 2}), state_folder("pretrain", "all", [file], {})]
    others.append(state_folder("finetune", "all", [file], {"steps": 2}))
    file.write_text("two")
    others.append(state_folder("pretrain", "all", [file], {"steps": 2}))
    file.write_text("one")
    monkeypatch.setattr(modules, "code_fingerprint", lambda module: f"another line of {module}")
    others.append(state_folder("pretrain", "all", [file], {"steps": 2}))
    assert len({first, *others}) == 6


@pytest.mark.parametrize("stage", ["pretrain", "finetune"])
def test_the_code_of_a_state_is_the_stages_own_and_that_of_the_libraries_it_runs(stage: str) -> None:
    files = {str(file.relative_to(modules.ROOT)) for file in modules.import_closure(f"pipeline.{stage}.__main__")}
    own = {str(file.relative_to(modules.ROOT)) for file in (modules.ROOT / "pipeline" / stage).glob("[a-z]*.py")}
    assert own and own < files
    assert {"pipeline/training/loop.py", "pipeline/metric/pairs.py", "pipeline/core/batches.py"} < files


def test_what_a_run_took_stands_in_the_notes_and_not_in_its_output(tmp_path: Path) -> None:
    history = History(points=[{"step": 2, "loss": 0.5}], rows_seen=8, best_step=2, seconds=12.34)
    write_training(tmp_path / "one", history, {"pairs": 4})
    history.seconds = 99.0
    write_training(tmp_path / "two", history, {"pairs": 4})
    written = (tmp_path / "one" / "training.json").read_text()
    assert written == (tmp_path / "two" / "training.json").read_text() and "seconds" not in written
    assert runtime.notes() == {}
    note_training(tmp_path / "one", 12.34)
    runtime.note(tmp_path / "one", seconds=15.0)
    note_training(tmp_path / "one", 56.78)
    with runtime.TIMES.open("a") as lines:
        lines.write('[1]\n"text"\n{"seconds": 3}\n{"out": "da')
    (found,) = runtime.notes().values()
    assert (found["training_seconds"], found["seconds"], set(found)) == (
        56.8,
        15.0,
        {"training_seconds", "device", "precision", "seconds"},
    )
