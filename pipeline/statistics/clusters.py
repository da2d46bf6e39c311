"""Which of several metrics agree with people better than others, beyond chance: PERM-BOTH and clusters of metrics.

PERM-BOTH (Deutsch, Dror, Roth, "A Statistical Analysis of Summarization Evaluation Metrics using Resampling Methods",
TACL 2021) asks how often a difference of two correlations as large as the observed one appears if, for
each row, chance decides which metric gave which score. Both metrics' scores are standardised first, because they have
scales of their own. It is one-sided: small if the first metric is better. It follows mt-metrics-eval, but the observed
arrangement counts among the permuted ones, so that no p-value is 0, and all permutations are made (no early stop).

Metrics are then put into clusters, best first, as WMT's metrics task ranks them: a metric opens a new cluster if it is
significantly worse than any metric of the cluster before. The p-values are not corrected for their number, there too.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy
from scipy import stats

from pipeline.statistics.correlation import Vector
from pipeline.statistics.swaps import Columns, Differences

ROUNDING = 1e-12
"""A permuted difference that misses the observed one by no more is as large."""


@dataclass(frozen=True)
class PermBoth:
    """`delta`: the first metric's correlation minus the second's. `p_value`: of "the first is not better"."""

    delta: float
    p_value: float


def standardised(human: Vector, first: Vector, second: Vector, groups: numpy.ndarray) -> Columns:
    """The columns (rows,) with z-scores of both metrics over all rows; a constant metric stays constant."""
    return Columns(human, _z_scores(first), _z_scores(second), groups)


def _z_scores(values: Vector) -> Vector:
    return numpy.asarray(stats.zscore(values)) if numpy.ptp(values) > 0 else numpy.zeros(len(values))


def perm_both(
    parts: Sequence[Columns], differences: Differences, permutations: int, rng: numpy.random.Generator
) -> PermBoth:
    """Delta and p-value of correlations averaged over `parts`, such as language pairs; see `standardised`.

    `differences` says which correlation. The p-value lies in [1 / (permutations + 1), 1]. NaN if a correlation is not
    defined in a part, or if there is no part; permutations that leave one undefined do not count.
    """
    observed, permuted = 0.0, numpy.zeros(permutations)
    for part in parts:
        rows = len(part.human)
        observed += float(differences(part, numpy.ones((1, rows), dtype=numpy.int64))[0]) / len(parts)
        permuted += differences(part, rng.integers(0, 2, size=(permutations, rows))) / len(parts)
    if not parts or math.isnan(observed):
        return PermBoth(math.nan, math.nan)
    known = permuted[~numpy.isnan(permuted)]
    larger = int((known >= observed - ROUNDING).sum())
    return PermBoth(observed, (larger + 1) / (len(known) + 1))


def clusters(p_values: numpy.ndarray, level: float) -> list[int]:
    """The cluster of each metric, from 1, of metrics ordered from best to worst.

    `p_values[i, j]` (metrics, metrics), i < j, says whether metric i is better than the lower metric j: it is if the
    value is at most `level`. Other cells are not read.

    By hand: the second metric ties with the first; the third is worse than the first, so it opens cluster 2; the fourth
    is compared with the third alone, which it ties with.

    >>> nan = numpy.nan
    >>> p_values = [[nan, 0.3, 0.01, 0.01], [nan, nan, 0.2, 0.01], [nan, nan, nan, 0.4], [nan] * 4]
    >>> clusters(numpy.array(p_values), 0.05)
    [1, 1, 2, 2]
    """
    found: list[int] = []
    start = 0
    for metric in range(len(p_values)):
        if (p_values[start:metric, metric] <= level).any():
            start = metric
        found.append(found[-1] + (start == metric) if found else 1)
    return found
