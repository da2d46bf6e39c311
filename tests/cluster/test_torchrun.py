"""torchrun with two processes (gloo): the result of one process, also after a process was killed."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from pipeline.core.errors import BleurtError
from pipeline.core.modules import ROOT
from pipeline.training import loop

OWN_STORES = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
SCRIPT = ROOT / "tests" / "trained_by_ranks.py"


def run(folder: Path, *options: str, dies_at: int = -1) -> subprocess.CompletedProcess[str]:
    """The script in `folder`, under torchrun if there are options."""
    folder.mkdir(exist_ok=True)
    own = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "BLEURT_DEVICE": "cpu", OWN_STORES: "1"}
    torchrun = ["-m", "torch.distributed.run", "--standalone", *options] if options else []
    command = [sys.executable, *torchrun, str(SCRIPT), str(folder), str(dies_at)]
    return subprocess.run(command, env={**os.environ, **own}, capture_output=True, text=True, timeout=300)


def result(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = torch.load(folder / "result.pt")
    return found


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The result of two processes, none of which was killed."""
    folder = tmp_path_factory.mktemp("two")
    done = run(folder, "--nproc-per-node", "2")
    assert done.returncode == 0, done.stderr[-2000:]
    return result(folder)


def same(one: dict[str, Any], other: dict[str, Any], tolerance: float) -> bool:
    weights = one["weights"]
    points = [[point["loss"] for point in found["points"]] for found in (one, other)]
    return points[0] == pytest.approx(points[1], abs=tolerance) and all(
        torch.allclose(weights[name], other["weights"][name], rtol=0, atol=tolerance) for name in weights
    )


def test_two_processes_end_with_the_weights_and_losses_of_one(two: dict[str, Any], tmp_path: Path) -> None:
    assert run(tmp_path / "one").returncode == 0
    one = result(tmp_path / "one")
    assert same(one, two, 1e-5)
    assert len(one["points"]) == 3 and one["points"][0]["loss"] > 1.2 * one["points"][-1]["loss"]


def test_a_run_whose_second_process_was_killed_goes_on(two: dict[str, Any], tmp_path: Path) -> None:
    killed = run(tmp_path, "--nproc-per-node", "2", dies_at=7)
    assert killed.returncode != 0 and not (tmp_path / "result.pt").exists()
    again = run(tmp_path, "--nproc-per-node", "2", dies_at=7)
    assert again.returncode == 0 and "continuing from step 6" in again.stdout
    assert same(result(tmp_path), two, 0.0)


def test_torchrun_restarts_the_processes_by_itself(two: dict[str, Any], tmp_path: Path) -> None:
    done = run(tmp_path, "--nproc-per-node", "2", "--max-restarts", "3", dies_at=7)
    assert done.returncode == 0 and (tmp_path / "died").exists()
    assert "continuing from step 6" in done.stdout
    assert same(result(tmp_path), two, 0.0)


def test_restarts_that_would_find_addresses_of_the_attempt_before_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {"WORLD_SIZE": "2", "TORCHELASTIC_MAX_RESTARTS": "3", "TORCHELASTIC_USE_AGENT_STORE": "True"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(BleurtError, match=rf"^torchrun --max-restarts needs {OWN_STORES}=1"), loop.process_group():
        pass


def test_processes_that_would_go_on_from_different_steps_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop.Group, "mean", lambda self, value: 3.0)
    with pytest.raises(BleurtError, match=r"^this process of torchrun would go on from step 6, and others"):
        loop.check_same_step(loop.Group(0, 2), 6)
    loop.check_same_step(loop.Group(1, 2), 3)
