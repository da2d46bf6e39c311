"""Differences of two metrics' correlations with people if chance swaps their scores, for many swaps at once.

Both permutation tests of metrics rest on this. A swap is a row of `kept`: where it is 1, the first metric keeps its own
score of that row of the data; where it is 0, it gets the second metric's, and the second gets its. The difference is
the correlation of the first metric after the swap minus that of the second one. With `kept` of 1 it is the observed
difference.

The correlation of people with a mixed column needs only sums of products. Those of Pearson are linear in `kept`, and
the concordance of Kendall is a quadratic form in it, so that no mixed column is ever made.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy
from scipy import stats

from pipeline.statistics.correlation import Vector

BLOCK_ROWS = 1024
"""Rows of the matrix of signs in memory at once."""

CONSTANT = 1e-20
CONSTANT_SUMS = 1e-13
"""Shares of a column's squares below which its spread is rounding, of exact means and of sums: it is constant."""


@dataclass(frozen=True)
class Columns:
    """Two metrics on the same rows, on one scale (z-scores or ranks); all are (rows,).

    `groups`: labels of the groups whose correlations are averaged.
    """

    human: Vector
    first: Vector
    second: Vector
    groups: numpy.ndarray


Differences = Callable[[Columns, numpy.ndarray], Vector]
"""(columns, `kept` of 0 and 1 (swaps, rows)) -> differences (swaps,), NaN where a correlation is not defined."""


def pearson_differences(columns: Columns, kept: numpy.ndarray) -> Vector:
    """Of Pearson's r, averaged over the groups; a group in which a column is constant does not count.

    So does mt-metrics-eval; if no group counts, the difference is NaN (there: 0).
    """
    _, group = numpy.unique(columns.groups, return_inverse=True)
    sizes = numpy.bincount(group).astype(numpy.float64)
    human = columns.human - (numpy.bincount(group, columns.human) / sizes)[group]
    spread = numpy.bincount(group, human**2)
    spread[spread <= CONSTANT * numpy.bincount(group, columns.human**2)] = 0.0
    inside = numpy.arange(len(sizes))[:, None] == group
    swaps = kept.T.astype(numpy.float64)
    firsts, seconds = [], []  # sums of the mixed columns, their squares and their products with people's scores
    for power, by in ((1, numpy.ones_like(human)), (2, numpy.ones_like(human)), (1, human)):
        first, second = columns.first**power * by, columns.second**power * by
        moved = (inside * (first - second)) @ swaps  # (groups, swaps)
        firsts.append(numpy.bincount(group, second)[:, None] + moved)
        seconds.append(numpy.bincount(group, first)[:, None] - moved)
    difference: Vector = _mean_r(firsts, spread, sizes) - _mean_r(seconds, spread, sizes)
    return difference


def _mean_r(sums: list[numpy.ndarray], human_spread: Vector, sizes: Vector) -> Vector:
    """Mean over the groups of r, (swaps,); `sums` of values, squares and products are (groups, swaps)."""
    values, squares, products = sums
    spread = squares - values**2 / sizes[:, None]
    r = numpy.full(spread.shape, numpy.nan)
    known = (human_spread[:, None] > 0) & (spread > CONSTANT_SUMS * squares)
    numpy.divide(products, numpy.sqrt(human_spread[:, None] * numpy.maximum(spread, 0)), out=r, where=known)
    count = known.sum(axis=0)
    mean: Vector = numpy.full(len(count), numpy.nan)
    numpy.divide(numpy.nansum(r, axis=0), count, out=mean, where=count > 0)
    return mean


def kendall_differences(columns: Columns, kept: numpy.ndarray) -> Vector:
    """Of Kendall's tau-b on all rows, whatever their groups; NaN if a column is constant.

    With s = 2 kept - 1, four times the concordance of the mixed column is c + l s + s Q s over all ordered pairs; the
    other mixed column has -s. All are whole numbers and exact.
    """
    count = len(columns.human)
    signs = (2 * kept - 1).astype(numpy.float32)
    constant, linear, quadratic = 0.0, numpy.zeros(count), numpy.zeros(len(kept))
    people = _ranks(columns.human)
    first, second = numpy.split(_ranks(numpy.concatenate([columns.first, columns.second])), 2)
    for start in range(0, count, BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        human = _signs(people, people, rows)
        own, cross, back, theirs = (
            _signs(one, other, rows) * human for one in (first, second) for other in (first, second)
        )
        constant += float((own + cross + back + theirs).sum(dtype=numpy.float64))
        linear[rows] = 2 * (own + cross - back - theirs).sum(axis=1, dtype=numpy.float64)
        mixed = (signs @ (own - cross - back + theirs).T) * signs[:, rows]
        quadratic += mixed.sum(axis=1, dtype=numpy.float64)
    odd = signs.astype(numpy.float64) @ linear
    pairs = count**2 - (numpy.unique(columns.human, return_counts=True)[1].astype(numpy.float64) ** 2).sum()
    even = constant + quadratic
    kept_pairs, swapped_pairs = (_untied_mixed(first, second, chosen) for chosen in (kept, 1 - kept))
    difference: Vector = _tau(even + odd, pairs * kept_pairs) - _tau(even - odd, pairs * swapped_pairs)
    return difference


def _tau(concordance: Vector, pairs: Vector) -> Vector:
    tau: Vector = numpy.full(len(concordance), numpy.nan)
    numpy.divide(concordance, 4 * numpy.sqrt(pairs), out=tau, where=pairs > 0)
    return tau


def _ranks(values: Vector) -> Vector:
    """Single precision is exact for them, and quick."""
    ranks: Vector = stats.rankdata(values, method="dense").astype(numpy.float32)
    return ranks


def _signs(ranks: Vector, others: Vector, rows: slice) -> numpy.ndarray:
    """Of the differences of some rows of `ranks` to all of `others`."""
    signs: numpy.ndarray = ranks[rows, None] - others[None, :]
    numpy.sign(signs, out=signs)
    return signs


def _untied_mixed(first: Vector, second: Vector, chosen: numpy.ndarray) -> Vector:
    """Ordered pairs of unequal values in the mixed columns: `first` where `chosen` is 1, else `second`.

    Only values that occur several times can tie.
    """
    count = len(first)
    _, number, times = numpy.unique(numpy.concatenate([first, second]), return_inverse=True, return_counts=True)
    tied = numpy.flatnonzero(times[number] > 1)
    tied = tied[numpy.argsort(number[tied], kind="stable")]
    pairs: Vector = numpy.full(len(chosen), float(count * (count - 1)))
    if len(tied):
        present = numpy.where(tied < count, chosen[:, tied % count], 1 - chosen[:, tied % count])
        starts = numpy.flatnonzero(numpy.r_[True, numpy.diff(number[tied]) != 0])
        groups = numpy.add.reduceat(present, starts, axis=1).astype(numpy.float64)
        pairs -= (groups**2 - groups).sum(axis=1)
    return pairs
