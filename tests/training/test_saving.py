"""States are copied at once, written in the background, and not more often than the disk bears."""

import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from pipeline.core.errors import StorageError
from pipeline.training import saving
from pipeline.training.saving import Saver


def test_a_state_is_that_of_the_moment_of_its_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    may_write, real, written = threading.Event(), torch.save, dict[str, Any]()

    def late(state: dict[str, Any], stream: Any) -> None:
        assert may_write.wait(10)
        written.update(state)
        real(state, stream)

    monkeypatch.setattr(torch, "save", late)
    weight, points, best = torch.zeros(3), [{"step": 1}], torch.ones(3)
    with Saver(tmp_path / "state.pt") as saver:
        saver.save({"model": {"weight": weight}, "history": {"points": points}}, {"best": best})
        assert not saver.is_rested and not (tmp_path / "state.pt").exists()
        weight += 1
        points.append({"step": 2})
        may_write.set()
    found = torch.load(tmp_path / "state.pt")
    assert found["model"]["weight"].tolist() == [0, 0, 0] and found["history"]["points"] == [{"step": 1}]
    assert found["best"].tolist() == [1, 1, 1] and written["best"] is best  # nobody changes it, so it needs no copy


@pytest.mark.parametrize(("seconds", "rests"), [(0.5, 0.0), (3.0, 60.0)])
def test_a_slow_disk_is_written_to_less_often(
    seconds: float, rests: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(saving.time, "monotonic", lambda: now[0])

    def write(state: Any, stream: Any) -> None:
        now[0] += seconds

    monkeypatch.setattr(torch, "save", write)
    with Saver(tmp_path / "state.pt") as saver:
        assert saver.is_rested
        saver.save({}, {})
        saver._pending.result()  # type: ignore[union-attr]
        if rests:
            assert not saver.is_rested
            now[0] = seconds + rests - 0.1
            assert not saver.is_rested
        now[0] = seconds + rests
        assert saver.is_rested


def test_a_state_that_cannot_be_written_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way of a folder")
    with pytest.raises(StorageError), Saver(tmp_path / "file" / "state.pt") as saver:
        saver.save({}, {})


def test_an_error_of_the_run_itself_is_not_hidden(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way of a folder")
    with pytest.raises(RuntimeError, match="the run's own"), Saver(tmp_path / "file" / "state.pt") as saver:
        saver.save({}, {})
        raise RuntimeError("the run's own")
