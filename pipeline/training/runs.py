"""What pre-training and fine-tuning share: where a run keeps its state, and what it leaves beside the weights.

What a run took, and on what device, goes to the notes of `pipeline.core.runtime`: the files beside the weights hold
only what is the same in every run of the same inputs, params and code on the same kind of machine.
"""

import contextlib
import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from dvclive.live import Live

from pipeline.core import modules, outputs, runtime, work
from pipeline.training.loop import History, fit, process_group
from pipeline.training.schedule import Schedule


def state_folder(stage: str, name: str, inputs: Sequence[Path], *settings: object) -> Path:
    """Folder under `.work` for the run `name` of `stage`.

    Another input, another setting (any object, by its `repr`) or another line of code that the stage can run means
    another folder, so that a run never continues from another run's state.
    """
    code = modules.code_fingerprint(f"pipeline.{stage}.__main__")
    parts = [*map(repr, settings), code, name, *map(work.file_hash, inputs)]
    digest = hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:24]
    return work.WORK / stage / f"{name}-{digest}"


@contextlib.contextmanager
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
    """`fit` in torchrun's process group, if there is one; None in every process except the one that writes results.

    A BleurtError if another run in this working copy trains in `state`.
    """
    with process_group() as group, contextlib.ExitStack() as stack:
        if group.rank == 0:
            stack.enter_context(outputs.alone(state))
        log = stack.enter_context(curves(out if group.rank == 0 else state / f"rank{group.rank}"))
        history = fit(model, loss, rows_at, schedule, state / "state.pt", evaluate=evaluate, log=log, group=group)
        return history if group.rank == 0 else None


def write_training(out: Path, history: History, facts: Mapping[str, Any]) -> None:
    """Write `out/training.json`: `facts`, the evaluations, the best step and its score (null if none was defined)."""
    finite = math.isfinite(history.best_score)
    found = {
        "steps": history.points,
        "rows_seen": history.rows_seen,
        "best_step": history.best_step,
        "best_validation": history.best_score if finite else None,
    }
    work.write_json(out / "training.json", {**facts, **found})


def note_training(out: Path, seconds: float) -> None:
    """Note what the training of `out` took, and where it ran; `pipeline.core.runtime.notes` reads it."""
    where, how = runtime.device(), runtime.precision(training=True)
    runtime.note(outputs.final(out), training_seconds=round(seconds, 1), device=where, precision=how)


def write_counts(out: Path, rows_in: int, dropped: Mapping[str, int]) -> None:
    """Write `out/counts.json`: rows read, rows used, and those dropped by reason."""
    rows_out = rows_in - sum(dropped.values())
    work.write_json(out / "counts.json", {"rows_in": rows_in, "rows_out": rows_out, "dropped": dict(dropped)})


def finish(state: Path) -> None:
    """Forget a finished run's state."""
    outputs.remove_folder(state)
