"""One resumable training loop: it keeps the weights with the best validation score.

Dropout is seeded by (seed, step, process) and batches are a function of the step. A run that was killed continues from
its last state file, and ends with the weights and the history of a run that was never killed. Under torchrun every
process computes its share of each batch (DistributedDataParallel), and every row counts the same. (If rows have several
ratings each, every rating counts the same only if no row lacks one.) On hardware with bf16 the forward pass runs in it;
on a CPU without it, `pipeline.core.kernels` computes the linear layers and their gradients.
"""

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel
from tqdm import tqdm

from pipeline.core import kernels, runtime
from pipeline.core.errors import BleurtError
from pipeline.training.saving import Saver
from pipeline.training.schedule import Schedule, new_optimizer

State = dict[str, Any]

CHECK_EVERY = 50
"""Steps after which the losses of a GPU are fetched: it need not be waited for at every step. A CPU's are at once."""


@dataclass
class History:
    """What a run reports: `points` holds the step, mean training loss and validation score of every evaluation.

    A point lacks `validation` if the score was undefined there. The weights of `best_step` were kept. `seconds` is the
    time that the run took, all its parts together if it was killed; nothing else here differs from run to run.
    """

    points: list[dict[str, float]] = field(default_factory=list)
    loss_sum: float = 0.0  # since the last point
    loss_steps: int = 0
    rows_seen: int = 0
    best_step: int = 0
    best_score: float = -math.inf
    seconds: float = 0.0


@dataclass(frozen=True)
class Group:
    """This process's place among those of torchrun; without torchrun it is rank 0 of 1."""

    rank: int
    size: int

    def share(self, rows: list[int]) -> list[int]:
        """This process's rows of a batch. If there are fewer rows than processes, each process gets all of them."""
        return rows[self.rank :: self.size] if len(rows) >= self.size else rows

    def weight(self, rows: list[int]) -> float:
        """How much the mean loss of `share(rows)` counts in the mean over processes, so that every row counts the same.

        Of 3 rows, the first of two processes gets two and counts 4/3; the other gets one and counts 2/3.
        """
        return self.size * len(self.share(rows)) / len(rows) if len(rows) >= self.size else 1.0

    def mean(self, value: float) -> float:
        """The mean of `value` over all processes."""
        if self.size == 1:
            return value
        sums = torch.tensor([value], dtype=torch.float64, device=runtime.device())
        torch.distributed.all_reduce(sums)
        return float(sums[0]) / self.size


@contextlib.contextmanager
def process_group() -> Iterator[Group]:
    """Join torchrun's processes, if there are any, and leave them at the end.

    A process that has joined already gets the same group again, and leaves it when the outer block ends.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield Group(0, 1)
        return
    if torch.distributed.is_initialized():
        yield Group(torch.distributed.get_rank(), size)
        return
    _check_restarts()
    on_gpu = runtime.device().startswith("cuda")
    if on_gpu:
        torch.cuda.set_device(runtime.device())
    torch.distributed.init_process_group("nccl" if on_gpu else "gloo")
    try:
        yield Group(torch.distributed.get_rank(), size)
    finally:
        torch.distributed.destroy_process_group()


def _check_restarts() -> None:
    """Refuse torchrun's restarts if all attempts share a store: addresses of dead processes are left in it."""
    shared = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    if shared and int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")):
        raise BleurtError(
            "torchrun --max-restarts needs TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 in the environment, and the backend "
            "c10d: else restarted processes may wait for dead ones."
        )


def fit(
    model: torch.nn.Module,
    loss: Callable[[torch.nn.Module, list[int]], torch.Tensor],
    rows_at: Callable[[int], list[int]],
    schedule: Schedule,
    state_file: Path,
    *,
    evaluate: Callable[[torch.nn.Module], float] | None = None,
    log: Callable[[int, dict[str, float]], None] | None = None,
    group: Group = Group(0, 1),
) -> History:
    """Train `model` in place. It ends with the weights of the highest `evaluate`; without `evaluate`, with the last.

    `loss(model, rows)` is the mean loss of `rows`. `rows_at(step)` gives the rows of a step. `log(step, point)` is
    called at every evaluation, and again for those before a kill. A score that is not finite is never the best. A loss
    that is not finite ends the run with a BleurtError. `state_file` is written every `save_every` steps, or less often
    if that takes long (`pipeline.training.saving`); if it exists at the start, the run goes on from it. The caller
    deletes it.
    """
    model.train()
    optimizer = new_optimizer(model, schedule)
    history, best, first = History(), None, 0
    if group.rank == 0:
        for stale in state_file.parent.glob(f".{state_file.name}.*.tmp"):  # of a run that was killed while it saved
            stale.unlink()
    if state_file.exists():
        first, history, best = _restore(state_file, model, optimizer)
        for point in history.points:
            if log is not None and group.rank == 0:
                log(int(point["step"]), point)
    check_same_step(group, first)
    wrapped = DistributedDataParallel(model, find_unused_parameters=True) if group.size > 1 else model
    started = time.monotonic() - history.seconds
    losses = torch.zeros((), dtype=torch.float64, device=next(model.parameters()).device)
    quiet = group.rank > 0  # one bar for all processes
    bar = tqdm(total=schedule.steps, initial=first, desc="train", unit="step", mininterval=2.0, disable=quiet)
    with bar, Saver(state_file) as saver:
        for step in range(first, schedule.steps):
            rows = rows_at(step)
            weight = group.weight(rows)
            mine = update(wrapped, optimizer, loss, group.share(rows), schedule, step, weight, group.rank)
            losses += weight * mine
            history.loss_steps += 1
            history.rows_seen += len(rows)
            history.seconds = time.monotonic() - started
            last = step + 1 == schedule.steps
            evaluates, saves = ((step + 1) % n == 0 or last for n in (schedule.evaluate_every, schedule.save_every))
            if evaluates or saves or losses.device.type == "cpu" or (step + 1) % CHECK_EVERY == 0:
                history.loss_sum += _fetched(losses, group, step + 1)
            if evaluates:
                point = _evaluation(model, step + 1, history, evaluate)
                if history.best_step == step + 1:
                    best = {name: weight.detach().to("cpu", copy=True) for name, weight in model.state_dict().items()}
                bar.set_postfix({k: f"{v:.4g}" for k, v in point.items() if k in ("loss", "validation")})
                if log is not None and group.rank == 0:
                    log(step + 1, point)
            if group.rank == 0 and saves and (last or saver.is_rested):
                saver.save(_state(model, optimizer, step + 1, history), {"best": best})
            bar.update()
    if best is None:
        history.best_step = schedule.steps
    else:
        model.load_state_dict(best)
    model.eval()
    return history


def check_same_step(group: Group, first: int) -> None:
    """Refuse to go on if the processes found states of different steps, as on nodes that share no folder."""
    if group.mean(first) != first:
        raise BleurtError(
            f"this process of torchrun would go on from step {first}, and others from another one: let all nodes share "
            "the folder .work, or remove it everywhere to start again."
        )


def update(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    loss: Callable[[torch.nn.Module, list[int]], torch.Tensor],
    rows: list[int],
    schedule: Schedule,
    step: int,
    weight: float = 1.0,
    rank: int = 0,
) -> torch.Tensor:
    """One step of training on `rows`, the gradient of whose loss counts `weight` times; returns the loss before it.

    The loss is on the device, which has perhaps not computed it yet.
    """
    torch.manual_seed(schedule.dropout_seed(step, rank))
    for settings in optimizer.param_groups:
        settings["lr"] = settings["rate"] * schedule.factor(step)
    with runtime.autocast(training=True), kernels.linear_layers():
        value = loss(model, rows)
    torch.autograd.backward(weight * value)
    torch.nn.utils.clip_grad_norm_(model.parameters(), schedule.clip_norm)
    optimizer.step()
    optimizer.zero_grad()
    return value.detach().double()


def _fetched(losses: torch.Tensor, group: Group, step: int) -> float:
    """The mean over processes of the sum of `losses`, which starts again at 0; a BleurtError if it is not finite."""
    found = group.mean(float(losses))
    losses.zero_()
    if not math.isfinite(found):
        raise BleurtError(f"training diverged at step {step} (the loss is not finite); lower the learning rate.")
    return found


def _evaluation(
    model: torch.nn.Module, step: int, history: History, evaluate: Callable[[torch.nn.Module], float] | None
) -> dict[str, float]:
    """Add the point after `step` steps to `history`, and make `step` its best one if the score is the highest yet."""
    point = {"step": step, "loss": history.loss_sum / history.loss_steps}
    history.loss_sum, history.loss_steps = 0.0, 0
    if evaluate is not None:
        model.eval()
        with kernels.linear_layers():
            score = evaluate(model)
        model.train()
        if math.isfinite(score):
            point["validation"] = score
            if score > history.best_score:
                history.best_score, history.best_step = score, step
    history.points.append(point)
    return point


def _state(model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int, history: History) -> State:
    """What `_restore` continues from, but for the best weights."""
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step, "history": vars(history)}


def _restore(file: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> tuple[int, History, State | None]:
    state = torch.load(file, weights_only=True, map_location="cpu")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    print(f"continuing from step {state['step']}", flush=True)
    return state["step"], History(**state["history"]), state["best"]
