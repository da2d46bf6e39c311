"""How sure a number is: intervals and p-values from bootstrap resamples, and Holm's correction of several p-values.

All p-values are two-sided. A resample that leaves a statistic undefined (NaN) is left out; if more than MOST_UNDEFINED
of the resamples do, the interval and the p-value are NaN, because the rest is no fair picture of the spread.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy

from pipeline.statistics.correlation import Vector

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

    The chance to call even one difference real that is none is at most `level` if all with an adjusted p-value of at
    most `level` are called real. This holds for tests that depend on each other. NaN stays NaN and counts as no
    comparison. By hand: the smallest of three is multiplied by 3, the next by 2; none may fall below the one before.

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
