"""How certain a number is: intervals, p-values, Holm's correction of several p-values, two metrics against people.

Intervals and the paired bootstrap come from bootstrap resamples. A resample that leaves a statistic undefined (NaN) is
left out; if more than MOST_UNDEFINED of the resamples do, the interval and the p-value are NaN, because the rest does
not show the spread fairly.

Is one of two metrics closer to the human ratings than the other, beyond chance? The permutation test asks how often a
difference as large as the observed one appears if, for each segment, chance decides which of the two metrics gave which
scores. Scores are ranked inside a language pair first, because two metrics may have different scales. Williams' test is
what WMT17's organisers used for Pearson's r. The paired bootstrap serves here too: every metric meets the same
resamples. All p-values are two-sided.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy
from scipy import stats

from pipeline.statistics.correlation import Vector
from pipeline.statistics.swaps import Columns, kendall_differences

MOST_UNDEFINED = 0.05
"""Share of the resamples that may leave a statistic undefined."""


@dataclass(frozen=True)
class Interval:
    """Bounds of a percentile bootstrap interval; NaN if too few resamples define the statistic."""

    low: float
    high: float


def interval(values: Vector, confidence: float) -> Interval:
    """The central `confidence` (0-1) share of resampled `values` (resamples,).

    >>> interval(numpy.arange(101.0), 0.5)
    Interval(low=25.0, high=75.0)
    """
    known = _known(values)
    if len(known) == 0:
        return Interval(math.nan, math.nan)
    low, high = numpy.quantile(known, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(low), float(high))


def paired_bootstrap(differences: Vector) -> float:
    """p-value from resampled differences (resamples,): twice the share on the rarer side of zero, counting one more.

    >>> paired_bootstrap(numpy.array([0.1] * 95 + [-0.1] * 4))
    0.1
    """
    known = _known(differences)
    if len(known) == 0:
        return math.nan
    rarer = min(int((known <= 0).sum()), int((known >= 0).sum()))
    return min(1.0, 2 * (rarer + 1) / (len(known) + 1))


def _known(values: Vector) -> Vector:
    """The resamples that are defined; none if more than MOST_UNDEFINED are not."""
    known: Vector = values[~numpy.isnan(values)]
    return known if len(known) >= (1 - MOST_UNDEFINED) * len(values) else known[:0]


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down p-values (1979), in the given order, for comparisons that are made together.

    Call every difference real whose adjusted p-value is at most `level`. The chance that this is wrong even once is
    then at most `level`. This holds for tests that depend on each other. NaN stays NaN and counts as no comparison. By
    hand: the smallest of three is multiplied by 3, the next by 2; none may fall below the one before.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted = [math.nan] * len(p_values)
    known = sorted((p, place) for place, p in enumerate(p_values) if not math.isnan(p))
    largest = 0.0
    for rank, (p, place) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - rank) * p))
        adjusted[place] = largest
    return adjusted


@dataclass(frozen=True)
class Paired:
    """Two metrics on the rows of one language pair: `human`, `first`, `second` float64 (rows,), `segments` (rows,)."""

    human: Vector
    first: Vector
    second: Vector
    segments: numpy.ndarray


def paired_permutation(pairs: Sequence[Paired], permutations: int, rng: numpy.random.Generator) -> float:
    """p-value of the difference of two metrics' Kendall averages over language pairs.

    Segments swap the metrics' ranks with probability 1/2. The p-value counts the observed arrangement among the
    permuted ones, so it is at least 1 / (permutations + 1). Permutations that leave a tau undefined do not count. NaN
    if a metric is constant on a language pair, or if there is no language pair.
    """
    observed, permuted = 0.0, numpy.zeros(permutations)
    for pair in pairs:
        ranks = Columns(pair.human, stats.rankdata(pair.first), stats.rankdata(pair.second), pair.segments)
        observed += float(kendall_differences(ranks, numpy.ones((1, len(pair.human)), dtype=numpy.int64))[0])
        _, inverse = numpy.unique(pair.segments, return_inverse=True)
        kept = rng.integers(0, 2, size=(permutations, int(inverse.max()) + 1))[:, inverse]
        permuted += kendall_differences(ranks, kept)
    if not pairs or math.isnan(observed):
        return math.nan
    known = permuted[~numpy.isnan(permuted)]
    # Swapping all segments repeats the observed arrangement up to rounding, hence the small allowance.
    extreme = int((numpy.abs(known) >= abs(observed) - 1e-12).sum())
    return (extreme + 1) / (len(known) + 1)


def williams(human_first: float, human_second: float, first_second: float, count: int) -> float:
    """p-value for two dependent correlations that share the human column, from three Pearson r and the rows' number.

    `human_first` and `human_second` are the metrics' correlations with people, `first_second` is the correlation of
    the two metrics. NaN for fewer than four rows or if a correlation is not defined; 1.0 if both metrics correlate
    equally with people.
    """
    if count < 4 or math.isnan(human_first + human_second + first_second):
        return math.nan
    if human_first == human_second:
        return 1.0
    determinant = 1 - human_first**2 - human_second**2 - first_second**2 + 2 * human_first * human_second * first_second
    mean_square = ((human_first + human_second) / 2) ** 2
    spread = 2 * determinant * (count - 1) / (count - 3) + mean_square * (1 - first_second) ** 3
    if spread <= 0:
        return 0.0
    statistic = (human_first - human_second) * math.sqrt((count - 1) * (1 + first_second) / spread)
    return float(2 * stats.t.sf(abs(statistic), count - 3))
