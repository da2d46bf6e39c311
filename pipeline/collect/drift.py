"""Quality drift: low-rated rows for training, high-rated ones for the test (section 5.2, B.3, figure 1).

The rows of a side are cut by rating into ten bins of equal size, from 1, the lowest, to 10. A row of bin B is kept with
probability 1 / B^alpha for training and 1 / (11 - B)^alpha for the test, so that alpha 0 keeps everything.

The paper does not say how ties are cut or how the draws are made. Here equal ratings stay in the order of the rows.
Each row has one random number, drawn from (seed, side) and the same for every alpha, so a larger alpha keeps a part of
what a smaller one keeps, and the two sides do not depend on each other.
"""

import itertools
from collections import Counter
from collections.abc import Sequence

import numpy
from numpy.typing import NDArray

from pipeline.collect.corpus import TEST, TRAIN, CollectParams
from pipeline.collect.splits import Entry
from pipeline.core.shards import generator

BINS = 10
DRIFT = "left out by drift"


def bins(ratings: Sequence[float]) -> NDArray[numpy.int64]:
    """The bin of each row (rows,), from 1 for the lowest ratings to BINS; sizes differ by at most 1.

    >>> bins([0.5, -2.0, 0.5, 7.0, 0.1]).tolist()
    [5, 1, 7, 9, 3]
    """
    order = numpy.argsort(numpy.asarray(ratings, dtype=numpy.float64), kind="stable")
    found = numpy.empty(len(order), dtype=numpy.int64)
    found[order] = 1 + BINS * numpy.arange(len(order)) // max(len(order), 1)
    return found


def keep_probabilities(ratings: Sequence[float], alpha: float, side: str) -> NDArray[numpy.float64]:
    """How likely each row of a side, TRAIN or TEST, is to be kept (rows,), in (0, 1]; `alpha` is at least 0.

    >>> [round(float(p), 2) for p in keep_probabilities(range(10), 1.0, TRAIN)]
    [1.0, 0.5, 0.33, 0.25, 0.2, 0.17, 0.14, 0.12, 0.11, 0.1]
    """
    assert alpha >= 0, alpha
    distance = bins(ratings) if side == TRAIN else BINS + 1 - bins(ratings)
    probabilities: NDArray[numpy.float64] = distance.astype(numpy.float64) ** -alpha
    return probabilities


def kept(ratings: Sequence[float], alpha: float, seed: int, side: str) -> NDArray[numpy.int64]:
    """Indices of the rows that are kept, in ascending order; `ratings` are finite, higher is better.

    On average a share of mean(1 / B^alpha) stays: 100, 50.2, 29.3, 20.0 and 12.0 percent for alpha 0, 0.5, 1, 1.5, 3.
    """
    draws = generator(seed, "drift", side).random(len(ratings))
    return numpy.flatnonzero(draws < keep_probabilities(ratings, alpha, side))


def skew(entries: list[Entry], params: CollectParams, dropped: dict[str, Counter[str]]) -> None:
    """Drop the training rows and the test rows that the drift leaves out, and count them.

    Rows of all corpora are cut into bins together, by `score`, one aspect at a time.
    """
    aspects = sorted({entry.rating.aspect for entry in entries})
    sides = ((TRAIN, params.drift.train_alpha), (TEST, params.drift.test_alpha))
    for (side, alpha), aspect in itertools.product(sides, aspects):
        rows = [entry for entry in entries if entry.split == side and entry.rating.aspect == aspect]
        stay = set(kept([entry.rating.score for entry in rows], alpha, params.seed, side).tolist())
        for entry in (entry for row, entry in enumerate(rows) if row not in stay):
            entry.split = None
            dropped[entry.corpus][DRIFT] += 1
