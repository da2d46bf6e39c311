"""The plan of training batches: which rows make up step s, a pure function of (seed, s).

Rows are shuffled, cut into windows of many batches, and sorted by length inside a window; the batches of a window are
shuffled again. Padding then costs a few per cent instead of half of the tokens, and the order stays random.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

from pipeline.core.seeds import generator

WINDOW_BATCHES = 64
"""Batches in a sorting window: enough for little padding, few compared with an epoch."""


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
