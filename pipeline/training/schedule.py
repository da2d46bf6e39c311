"""What happens at step s of a run: which rows it learns from, at what rate, and with which dropout.

All of it is a pure function of (seed, s), so that a run can continue from any step. Rows are shuffled, cut into windows
of many batches, and sorted by length inside a window; the batches of a window are shuffled again. Padding then costs a
few per cent instead of half of the tokens, and the order stays random. The optimizer is Adam with warm-up and linear
decay.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy
import torch
from numpy.typing import NDArray
from pydantic import Field

from pipeline.core.params import AtLeastOne, NotNegative, Positive, Share, params
from pipeline.core.shards import generator

WINDOW_BATCHES = 64
"""Batches in a sorting window: enough for little padding, few compared with an epoch."""


@params
class Schedule:
    """How long and how fast: `steps` updates, linear warm-up over `warmup_share` of them, then linear decay to zero.

    `layer_decay` multiplies the rate once for every layer below the top; 1.0 is the same rate everywhere. Gradients
    are cut to the norm `clip_norm`. Every `evaluate_every` steps the weights are scored, and every `save_every` steps
    the run is saved, so that it can continue after a kill.
    """

    steps: AtLeastOne
    learning_rate: Positive
    layer_decay: Annotated[float, Field(gt=0, le=1)]
    weight_decay: NotNegative
    warmup_share: Share
    clip_norm: Positive
    evaluate_every: AtLeastOne
    save_every: AtLeastOne
    seed: int

    def factor(self, step: int) -> float:
        """Multiplier of the learning rate at `step`, which counts from 0.

        Of 8 steps with a warm-up share of 0.25, two warm up, 0.5 and 1.0, and six fall from 6/7 to 1/7.
        """
        warmup = max(1, round(self.steps * self.warmup_share))
        return min((step + 1) / warmup, (self.steps - step) / max(1, self.steps - warmup + 1), 1.0)

    def dropout_seed(self, step: int, rank: int) -> int:
        """Seed of what torch draws at `step` in the process `rank` of torchrun: each process draws its own dropout."""
        if rank == 0:
            return self.seed * 1_000_003 + step
        return int(generator(self.seed, "dropout", step, rank).integers(2**63))


def new_optimizer(model: torch.nn.Module, schedule: Schedule) -> torch.optim.Optimizer:
    """AdamW over the weights of `model` that learn; `pipeline.training.loop.update` sets its rates."""
    return torch.optim.AdamW(parameter_groups(model, schedule), fused=True)


def parameter_groups(model: torch.nn.Module, schedule: Schedule) -> list[dict[str, Any]]:
    """Weights in groups with a `rate` of their own (layer by layer); biases and normalisations do not decay."""
    depth = int(getattr(model.config, "num_hidden_layers", 0)) if hasattr(model, "config") else 0
    groups: dict[tuple[int, bool], dict[str, Any]] = {}
    for name, weight in model.named_parameters():
        if not weight.requires_grad:
            continue
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


def _layer_of(name: str, depth: int) -> int:
    """0 for the embeddings, 1 for the lowest layer, `depth` for the highest layer and for everything above it."""
    parts = name.split(".")
    if "embeddings" in parts:
        return 0
    if "layer" in parts:
        return int(parts[parts.index("layer") + 1]) + 1
    return depth


def epoch_batches(
    lengths: Sequence[int] | NDArray[numpy.int64], batch_rows: int, seed: int, epoch: int
) -> list[NDArray[numpy.int64]]:
    """Rows of every batch of one epoch; each batch holds `batch_rows` rows, and one may hold fewer."""
    rng = generator(seed, "epoch", epoch)
    order = rng.permutation(len(lengths))
    sizes = numpy.asarray(lengths)
    batches: list[NDArray[numpy.int64]] = []
    window = batch_rows * WINDOW_BATCHES
    for start in range(0, len(order), window):
        rows = order[start : start + window]
        rows = rows[numpy.argsort(sizes[rows], kind="stable")]
        batches += [rows[i : i + batch_rows] for i in range(0, len(rows), batch_rows)]
    return [batches[i] for i in rng.permutation(len(batches))]


@dataclass
class BatchPlan:
    """`rows(step)` for any step. The plan of one epoch is made at once, and kept until another epoch is asked for.

    With 5 rows and batches of 2, an epoch takes 3 steps: steps 0 to 2 hold every row once, and so do steps 3 to 5.
    """

    lengths: Sequence[int] | NDArray[numpy.int64]
    batch_rows: int
    seed: int

    def __post_init__(self) -> None:
        self._epoch, self._batches = -1, list[NDArray[numpy.int64]]()

    @property
    def steps_an_epoch(self) -> int:
        """Batches that one pass over all rows takes."""
        return -(-len(self.lengths) // self.batch_rows)

    @property
    def padding_share(self) -> float:
        """Share of the tokens of the first epoch that are padding, from 0 to 1."""
        sizes, padded = numpy.asarray(self.lengths), 0
        for step in range(self.steps_an_epoch):
            rows = self.rows(step)
            padded += len(rows) * int(sizes[rows].max())
        return round(1 - int(sizes.sum()) / padded, 4)

    def rows(self, step: int) -> list[int]:
        """Rows of step `step`; steps and rows count from 0."""
        epoch, position = divmod(step, self.steps_an_epoch)
        if epoch != self._epoch:
            self._epoch, self._batches = epoch, epoch_batches(self.lengths, self.batch_rows, self.seed, epoch)
        rows: list[int] = self._batches[position].tolist()
        return rows
