"""What pre-training and fine-tuning share: where a run keeps its state, and what it leaves beside the weights."""

import dataclasses
import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from dvclive.live import Live

from pipeline.core import closure, runtime
from pipeline.core.work import WORK, file_hash, remove_folder, write_json
from pipeline.training.loop import History, Schedule, fit, process_group


def state_folder(module: str, params: Any, inputs: Sequence[Path], name: str) -> Path:
    """Folder under `.work` for a run of `module`: another params, input or line of code means another folder."""
    parts = [repr(dataclasses.asdict(params)), closure.code_fingerprint(module), name, *map(file_hash, inputs)]
    digest = hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:24]
    return WORK / module.split(".")[1] / f"{name}-{digest}"


@contextmanager
def curves(out: Path) -> Iterator[Callable[[int, dict[str, float]], None]]:
    """A logger that writes dvclive curves (loss, validation) under `out/live` while the run goes on."""
    with Live(str(out / "live"), save_dvc_exp=False, dvcyaml=None, report=None, cache_images=False) as live:

        def log(step: int, point: dict[str, float]) -> None:
            for name in ("loss", "validation"):
                if name in point:
                    live.log_metric(name, point[name], timestamp=False, plot=True)
            live.step = step
            live.make_summary()

        yield log


def run(
    model: torch.nn.Module,
    loss: Callable[[torch.nn.Module, list[int]], torch.Tensor],
    rows_at: Callable[[int], list[int]],
    schedule: Schedule,
    evaluate: Callable[[torch.nn.Module], float],
    state: Path,
    out: Path,
) -> History | None:
    """`fit` in torchrun's process group, where there is one; the process that writes results gets the history."""
    with process_group() as group, curves(out if group.rank == 0 else state / f"rank{group.rank}") as log:
        history = fit(model, loss, rows_at, schedule, state / "state.pt", evaluate=evaluate, log=log, group=group)
        return history if group.rank == 0 else None


def write_training(out: Path, history: History, facts: dict[str, Any]) -> None:
    """Write `out/training.json`: the evaluations, the best step, the time taken, and `facts`."""
    write_json(
        out / "training.json",
        {
            **facts,
            "steps": history.points,
            "seconds": round(history.seconds, 1),
            "rows_seen": history.rows_seen,
            "best_step": history.best_step,
            "best_validation": history.best_score if math.isfinite(history.best_score) else None,
            "device": runtime.device(),
            "precision": runtime.precision(training=True),
        },
    )


def write_counts(out: Path, rows_in: int, dropped: Mapping[str, int]) -> None:
    """Write `out/counts.json`: rows read, rows used, and those dropped by reason (law 6)."""
    rows_out = rows_in - sum(dropped.values())
    write_json(out / "counts.json", {"rows_in": rows_in, "rows_out": rows_out, "dropped": dict(dropped)})


def finish(state: Path) -> None:
    """Forget a finished run's state."""
    remove_folder(state)
