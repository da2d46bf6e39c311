"""Which rows make up training step s: shuffled in epochs, similar lengths together, a pure function of (seed, step).

Rows are shuffled, cut into windows of many batches, and sorted by length inside a window; the batches of a window are
shuffled again. Padding then costs a few per cent instead of half of the tokens, and the order stays random.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

from pipeline.core.seeds import generator

WINDOW_BATCHES = 64
"""Batches in a sorting window: large enough for little padding, small against an epoch."""


def epoch_batches(
    lengths: Sequence[int] | NDArray[numpy.int64], batch_rows: int, seed: int, epoch: int
) -> list[list[int]]:
    """Rows of every batch of one epoch; all batches hold `batch_rows` rows except possibly one."""
    rng = generator(seed, "epoch", epoch)
    order = rng.permutation(len(lengths))
    sizes = numpy.asarray(lengths)
    batches: list[list[int]] = []
    window = batch_rows * WINDOW_BATCHES
    for start in range(0, len(order), window):
        rows = order[start : start + window]
        rows = rows[numpy.argsort(sizes[rows], kind="stable")]
        batches += [rows[i : i + batch_rows].tolist() for i in range(0, len(rows), batch_rows)]
    return [batches[i] for i in rng.permutation(len(batches))]


@dataclass
class BatchPlan:
    """`rows(step)` for any step, made epoch by epoch and remembered for the current epoch only."""

    lengths: Sequence[int] | NDArray[numpy.int64]
    batch_rows: int
    seed: int

    def __post_init__(self) -> None:
        self._epoch, self._batches = -1, list[list[int]]()

    @property
    def steps_an_epoch(self) -> int:
        """Batches that one pass over all rows takes."""
        return -(-len(self.lengths) // self.batch_rows)

    @property
    def padding_share(self) -> float:
        """Share of the tokens of the first epoch that are padding."""
        sizes, padded = numpy.asarray(self.lengths), 0
        for step in range(self.steps_an_epoch):
            rows = self.rows(step)
            padded += len(rows) * int(sizes[rows].max())
        return round(1 - int(sizes.sum()) / padded, 4)

    def rows(self, step: int) -> list[int]:
        """Indices of the rows of step `step`, counted from 0."""
        epoch, position = divmod(step, self.steps_an_epoch)
        if epoch != self._epoch:
            self._epoch, self._batches = epoch, epoch_batches(self.lengths, self.batch_rows, self.seed, epoch)
        return self._batches[position]
