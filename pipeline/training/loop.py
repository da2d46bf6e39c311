"""One resumable training loop: Adam with warm-up and linear decay, best checkpoint by a validation score.

Dropout is seeded from (seed, step) and batches are a function of the step, so a run that was killed and continues from
its last state file ends with the weights of a run that was never killed. Under torchrun every process takes its share
of each batch (DistributedDataParallel), and every row counts the same (of several aspects, every rating where all rows
have all); on hardware with bf16 the forward pass runs in it.
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

from pipeline.core import runtime
from pipeline.core.errors import BleurtError
from pipeline.core.params import require, require_positive
from pipeline.core.shards import replacing

State = dict[str, Any]


@dataclass(frozen=True)
class Schedule:
    """How long and how fast: `steps` updates, linear warm-up over `warmup_share` of them, then linear decay to zero.

    `layer_decay` multiplies the rate once for every layer below the top (1.0: the same rate everywhere).
    """

    steps: int
    learning_rate: float
    layer_decay: float
    weight_decay: float
    warmup_share: float
    clip_norm: float
    evaluate_every: int
    save_every: int
    seed: int

    def check(self, section: str) -> None:
        """A ParamsError where a value is out of range; `section` is the schedule's place in params.yaml."""
        require_positive(section, self, "steps", "evaluate_every", "save_every")
        rules = {
            "learning_rate": (self.learning_rate > 0, "be above 0"),
            "layer_decay": (0 < self.layer_decay <= 1, "be above 0 and at most 1"),
            "weight_decay": (self.weight_decay >= 0, "be 0 or more"),
            "warmup_share": (0 <= self.warmup_share <= 1, "lie between 0 and 1"),
            "clip_norm": (self.clip_norm > 0, "be above 0"),
        }
        for name, (holds, rule) in rules.items():
            require(holds, f"{section}.{name}", rule, getattr(self, name))

    def factor(self, step: int) -> float:
        """Multiplier of the learning rate at `step` (from 0)."""
        warmup = max(1, round(self.steps * self.warmup_share))
        return min((step + 1) / warmup, (self.steps - step) / max(1, self.steps - warmup + 1), 1.0)


@dataclass
class History:
    """What a run reports: mean training loss and validation score at each evaluation, and the time it took.

    A point without `validation` is one at which it was undefined; `best_step` is the one whose weights were kept.
    """

    points: list[dict[str, float]] = field(default_factory=list)
    loss_sum: float = 0.0  # since the last point
    loss_steps: int = 0
    seconds: float = 0.0
    rows_seen: int = 0
    best_step: int = 0
    best_score: float = -math.inf


def parameter_groups(model: torch.nn.Module, schedule: Schedule) -> list[dict[str, Any]]:
    """Groups with their own rate (layer-wise decay) and without weight decay on biases and normalisations."""
    depth = int(getattr(model.config, "num_hidden_layers", 0)) if hasattr(model, "config") else 0
    groups: dict[tuple[int, bool], dict[str, Any]] = {}
    for name, weight in model.named_parameters():
        layer = _layer_of(name, depth)
        decays = weight.ndim > 1
        group = groups.setdefault(
            (layer, decays),
            {
                "params": [],
                "rate": schedule.learning_rate * schedule.layer_decay ** (depth - layer),
                "weight_decay": schedule.weight_decay if decays else 0.0,
            },
        )
        group["params"].append(weight)
    return list(groups.values())


def new_optimizer(model: torch.nn.Module, schedule: Schedule) -> torch.optim.Optimizer:
    """AdamW over all weights of `model`; `update` sets its rates."""
    return torch.optim.AdamW(parameter_groups(model, schedule), fused=True)


def _layer_of(name: str, depth: int) -> int:
    parts = name.split(".")
    if "embeddings" in parts:
        return 0
    if "layer" in parts:
        return int(parts[parts.index("layer") + 1]) + 1
    return depth


@dataclass(frozen=True)
class Group:
    """This process's place among those of torchrun; rank 0 of 1 without it."""

    rank: int
    size: int

    def share(self, rows: list[int]) -> list[int]:
        """This process's rows of a batch; a batch smaller than the group goes whole to everyone."""
        return rows[self.rank :: self.size] if len(rows) >= self.size else rows

    def weight(self, rows: list[int]) -> float:
        """What the mean loss of `share(rows)` counts in the mean over processes, so that every row counts the same."""
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
    """Join torchrun's processes where there are any, and leave them at the end; inside another one, it is that one."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield Group(0, 1)
        return
    if torch.distributed.is_initialized():
        yield Group(torch.distributed.get_rank(), size)
        return
    on_gpu = runtime.device().startswith("cuda")
    if on_gpu:
        torch.cuda.set_device(runtime.device())
    torch.distributed.init_process_group("nccl" if on_gpu else "gloo")
    try:
        yield Group(torch.distributed.get_rank(), size)
    finally:
        torch.distributed.destroy_process_group()


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
    """Train `model` in place; it ends with the weights that `evaluate` (higher is better) liked best, else the last.

    `loss(model, rows)` is the mean loss of those rows; `rows_at(step)` gives a step's rows; `log(step, point)` hears of
    every evaluation, those before a resume included. A score that is not a number is never the best, and a loss that
    is not one ends the run with a BleurtError. `state_file` is written every `save_every` steps and read at the start
    where it exists; the caller deletes it.
    """
    model.train()
    optimizer = new_optimizer(model, schedule)
    history, best, first = History(), None, 0
    if state_file.exists():
        first, history, best = _restore(state_file, model, optimizer)
        for point in history.points:
            if log is not None and group.rank == 0:
                log(int(point["step"]), point)
    wrapped = DistributedDataParallel(model, find_unused_parameters=True) if group.size > 1 else model
    started = time.time() - history.seconds
    with tqdm(total=schedule.steps, initial=first, desc="train", unit="step", mininterval=2.0) as bar:
        for step in range(first, schedule.steps):
            rows = rows_at(step)
            weight = group.weight(rows)
            mine = update(wrapped, optimizer, loss, group.share(rows), schedule, step, weight)
            history.loss_sum += group.mean(weight * mine)
            history.loss_steps += 1
            history.rows_seen += len(rows)
            history.seconds = time.time() - started
            last = step + 1 == schedule.steps
            if (step + 1) % schedule.evaluate_every == 0 or last:
                mean_loss = history.loss_sum / history.loss_steps
                point = {"step": step + 1, "loss": mean_loss, "seconds": round(history.seconds, 1)}
                history.loss_sum, history.loss_steps = 0.0, 0
                if evaluate is not None:
                    score = _validate(model, evaluate)
                    if math.isfinite(score):
                        point["validation"] = score
                    if score > history.best_score:
                        history.best_score, history.best_step = score, step + 1
                        best = {name: weight.detach().clone() for name, weight in model.state_dict().items()}
                history.points.append(point)
                bar.set_postfix({k: f"{v:.4g}" for k, v in point.items() if k in ("loss", "validation")})
                if log is not None and group.rank == 0:
                    log(step + 1, point)
            if group.rank == 0 and ((step + 1) % schedule.save_every == 0 or last):
                _save(state_file, model, optimizer, step + 1, history, best)
            bar.update()
    if best is None:
        history.best_step = schedule.steps
    else:
        model.load_state_dict(best)
    model.eval()
    return history


def update(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    loss: Callable[[torch.nn.Module, list[int]], torch.Tensor],
    rows: list[int],
    schedule: Schedule,
    step: int,
    weight: float = 1.0,
) -> float:
    """One step of training on `rows`: the loss before it, whose gradient counts `weight` times.

    Dropout is drawn from the schedule's seed and `step`.
    """
    torch.manual_seed(schedule.seed * 1_000_003 + step)
    for settings in optimizer.param_groups:
        settings["lr"] = settings["rate"] * schedule.factor(step)
    with runtime.autocast(training=True):
        value = loss(model, rows)
    if not torch.isfinite(value):
        raise BleurtError(f"training diverged at step {step + 1} (the loss is not finite); lower the learning rate.")
    torch.autograd.backward(weight * value)
    torch.nn.utils.clip_grad_norm_(model.parameters(), schedule.clip_norm)
    optimizer.step()
    optimizer.zero_grad()
    return float(value.detach())


def _validate(model: torch.nn.Module, evaluate: Callable[[torch.nn.Module], float]) -> float:
    model.eval()
    score = evaluate(model)
    model.train()
    return score if math.isfinite(score) else -math.inf


def _save(
    file: Path,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    step: int,
    history: History,
    best: State | None,
) -> None:
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": step,
        "history": vars(history),
        "best": best,
    }
    with replacing(file) as temporary, temporary.open("wb") as stream:  # a stream, for its errors are OSErrors
        torch.save(state, stream)


def _restore(file: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> tuple[int, History, State | None]:
    state = torch.load(file, weights_only=True, map_location="cpu")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    print(f"continuing from step {state['step']}", flush=True)
    return state["step"], History(**state["history"]), state["best"]
