"""BLEURT_RAY_PROCESSES on a Ray cluster: the result of one process, also after a process was killed."""

import functools
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import trained_by_ranks

from pipeline.core import cluster, work
from pipeline.core.errors import BleurtError, InputError, ParamsError
from pipeline.training import launch as launching
from pipeline.training.launch import launch


@pytest.fixture
def on_ray(two_nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Trainings run in two processes of the cluster, in a folder of their own."""
    import ray

    for module in (trained_by_ranks, sys.modules[__name__]):
        ray.cloudpickle.register_pickle_by_value(module)  # the nodes cannot import tests
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(work, "WORK", Path(".work"))
    for name, value in (("ADDRESS", two_nodes.address), ("FILES", "shared"), ("GPUS", "0"), ("PROCESSES", "2")):
        monkeypatch.setenv(f"{'RAY' if name == 'ADDRESS' else 'BLEURT_RAY'}_{name}", value)
    monkeypatch.setenv("BLEURT_ENGINE", "ray")
    monkeypatch.setenv("BLEURT_DEVICE", "cpu")
    monkeypatch.setattr(sys, "argv", ["pipeline/pretrain/__main__.py", "--out", "models"])
    return tmp_path


def train(folder: Path, dies_at: int) -> dict[str, Any]:
    """What the training ends with, in so many processes as the environment says."""
    folder.mkdir()
    launch(functools.partial(trained_by_ranks.train, folder, dies_at))
    found: dict[str, Any] = torch.load(folder / "result.pt")
    return found


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    losses = [[point["loss"] for point in found["points"]] for found in (one, other)]
    near = [torch.allclose(one["weights"][k], other["weights"][k], rtol=0, atol=1e-5) for k in one["weights"]]
    return losses[0] == pytest.approx(losses[1], abs=1e-5) and len(near) == 4 and all(near)


def test_two_processes_of_which_one_is_killed_end_as_one_process(
    on_ray: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    two = train(on_ray / "two", dies_at=7)
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("pretrain in 2 processes failed")]
    assert len(told) == 1 and told[0].endswith("; attempt 2 of 3") and (on_ray / "two" / "died").exists()
    assert [file.name for file in (on_ray / ".work").iterdir()] == []
    monkeypatch.setenv("BLEURT_RAY_PROCESSES", "1")
    assert same(train(on_ray / "one", dies_at=-1), two)


def mistaken() -> None:
    raise InputError(f"holds a bad line, say {sys.argv}", file=Path("a.txt"), line=1)


def test_a_users_mistake_is_told_in_one_sentence_and_not_tried_again(
    on_ray: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(BleurtError) as caught:
        launch(mistaken)
    said = f"a.txt, line 1: holds a bad line, say {sys.argv}."
    assert type(caught.value) is InputError and str(caught.value) == said
    assert "attempt" not in capsys.readouterr().out


def test_an_error_that_stays_is_named_in_one_sentence(on_ray: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "ATTEMPTS", 1)
    sentence = r"^pretrain in 2 processes failed 1 times on the cluster; the last time: ZeroDivisionError: "
    with pytest.raises(BleurtError, match=sentence):
        launch(lambda: print(1 // 0))


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("BLEURT_RAY_PROCESSES", "two", "BLEURT_RAY_PROCESSES must be a whole number, not 'two'."),
        (
            "BLEURT_RAY_FILES",
            "store",
            "BLEURT_RAY_PROCESSES needs a folder that all nodes share: BLEURT_RAY_FILES cannot be store.",
        ),
    ],
)
def test_settings_that_do_not_fit_a_training_are_refused(
    name: str, value: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BLEURT_ENGINE", "ray")
    monkeypatch.setenv("BLEURT_RAY_PROCESSES", "2")
    monkeypatch.setenv(name, value)
    with pytest.raises(ParamsError) as caught:
        launch(mistaken)
    assert str(caught.value) == sentence


def test_a_training_is_here_unless_the_engine_is_ray_and_asks_for_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    for engine, count, rank in (("local", "2", None), ("ray", "0", None), ("ray", "2", "1")):
        with monkeypatch.context() as patch:
            patch.setenv("BLEURT_ENGINE", engine)
            patch.setenv("BLEURT_RAY_PROCESSES", count)
            if rank:
                patch.setenv("RANK", rank)  # torchrun has started this process
            launch(lambda: called.append(launching.processes()))
    assert called == [2, 0, 2]
