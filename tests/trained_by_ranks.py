"""What test_torchrun.py and test_training_on_ray.py train: `trained_by_ranks.py FOLDER STEP_AT_WHICH_RANK_1_DIES`."""

import os
import signal
import sys
import time
from pathlib import Path

import torch

from pipeline.training import saving
from pipeline.training.loop import fit, process_group
from pipeline.training.schedule import Schedule

INPUTS = torch.arange(40.0).reshape(10, 4) / 40
TARGETS = INPUTS.square().sum(1, keepdim=True)
SCHEDULE = Schedule(
    steps=12,
    learning_rate=0.05,
    layer_decay=1.0,
    weight_decay=0.01,
    warmup_share=0.25,
    clip_norm=1.0,
    evaluate_every=4,
    save_every=3,
    seed=7,
)


def loss(model: torch.nn.Module, rows: list[int]) -> torch.Tensor:
    return torch.nn.functional.mse_loss(model(INPUTS[rows]), TARGETS[rows])


def rows_at(step: int) -> list[int]:
    """Five rows, which two processes cannot share evenly."""
    return [(3 * step + i) % 10 for i in range(5)]


def wait_for_state(file: Path, step: int) -> None:
    """Wait until the state of `step` is written, which happens in the background."""
    for _ in range(3000):
        if file.exists() and torch.load(file, weights_only=True)["step"] >= step:
            return
        time.sleep(0.02)
    raise TimeoutError(f"no state of step {step} in {file}")


def train(folder: Path, dies_at: int) -> None:
    """Train in float32, without dropout, and save weights and history; rank 1 kills itself at a step, but once only."""
    torch.set_num_threads(1)
    torch.cpu.get_capabilities = dict  # type: ignore[assignment]  # no bf16
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    saving.REST = 0.0  # every state that the schedule asks for

    def watched(step: int) -> list[int]:
        if dies_at >= 0 and step and step % SCHEDULE.save_every == 0:
            wait_for_state(folder / "state.pt", step)
        died = folder / "died"
        if step == dies_at and os.environ.get("RANK") == "1" and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return rows_at(step)

    with process_group() as group:
        history = fit(model, loss, watched, SCHEDULE, folder / "state.pt", group=group)
        if group.rank == 0:
            torch.save({"weights": model.state_dict(), "points": history.points}, folder / "result.pt")


if __name__ == "__main__":
    train(Path(sys.argv[1]), int(sys.argv[2]))
