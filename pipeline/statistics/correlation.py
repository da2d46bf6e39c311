"""How far a metric orders and spaces segments as people do: Kendall, Pearson, Spearman, DARR (paper, sections 5, B.2).

Human scores stand before metric scores everywhere. All four lie in [-1, 1] and higher is better. Kendall is tau-b,
which corrects for ties, on all rows: the evaluator that the paper's authors released calls scipy's kendalltau in this
way. DARR follows WMT. A statistic that is not defined (a constant column, fewer than two segments, no pair for DARR) is
NaN and never 0. The report prints it as undefined.

A worked example with five segments, `human = [1, 2, 3, 4, 5]` and `metric = [2, 1, 4, 3, 5]`: of the ten pairs of
segments, (1, 2) and (3, 4) are ordered the wrong way, so tau = (8 - 2) / 10 = 0.6. Both columns have mean 3 and sum of
squares 10, and their product sums to 53 - 5 * 3 * 3 = 8, so Pearson = 8 / 10 = 0.8; the values are their own ranks, so
Spearman is 0.8 too.
"""

from dataclasses import dataclass

import numpy
from scipy import stats

Vector = numpy.ndarray
"""One number a segment: float64 (segments,)."""


@dataclass(frozen=True)
class Darr:
    """`value` in [-1, 1], NaN if `pairs` is 0; `pairs` counts the pairs of translations that people told apart."""

    value: float
    pairs: int


@dataclass(frozen=True)
class DarrPairs:
    """Pairs of rows that people told apart: `better[k]` was rated higher than `worse[k]`, both (pairs,) row indices."""

    better: numpy.ndarray
    worse: numpy.ndarray


def _undefined(human: Vector, metric: Vector) -> bool:
    assert human.shape == metric.shape and human.ndim == 1, (human.shape, metric.shape)
    return len(human) < 2 or bool(numpy.ptp(human) == 0 or numpy.ptp(metric) == 0)


def kendall(human: Vector, metric: Vector) -> float:
    """Kendall's tau-b of two columns (segments,), as scipy computes it; NaN if one of them is constant.

    >>> kendall(numpy.array([1, 2, 3, 4, 5]), numpy.array([2, 1, 4, 3, 5]))
    0.6
    """
    if _undefined(human, metric):
        return float("nan")
    return float(stats.kendalltau(human, metric, variant="b").statistic)


def pearson(human: Vector, metric: Vector) -> float:
    """Pearson's r of two columns (segments,); NaN if one of them is constant.

    >>> round(pearson(numpy.array([1, 2, 3, 4, 5]), numpy.array([2, 1, 4, 3, 5])), 12)
    0.8
    """
    if _undefined(human, metric):
        return float("nan")
    return float(stats.pearsonr(human, metric).statistic)


def spearman(human: Vector, metric: Vector) -> float:
    """Spearman's rho: Pearson's r of the average ranks; NaN if a column is constant.

    >>> round(spearman(numpy.array([1, 2, 3, 4, 5]), numpy.array([2, 1, 4, 3, 50])), 12)
    0.8
    """
    if _undefined(human, metric):
        return float("nan")
    return float(stats.spearmanr(human, metric).statistic)


def darr_pairs(raw: Vector, segments: numpy.ndarray, gap: float) -> DarrPairs:
    """All pairs of rows of one segment whose raw ratings differ, by at least `gap` points of 100.

    `raw` (rows,) is NaN if unknown; `segments` (rows,) numbers the segment that each row translates.
    """
    better, worse = [], []
    order = numpy.argsort(segments, kind="stable")
    for rows in numpy.split(order, numpy.flatnonzero(numpy.diff(segments[order])) + 1):
        difference = raw[rows][:, None] - raw[rows][None, :]
        high, low = numpy.nonzero((difference >= gap) & (difference > 0))
        better.append(rows[high])
        worse.append(rows[low])
    none = numpy.zeros(0, dtype=numpy.int64)
    return DarrPairs(numpy.concatenate([none, *better]), numpy.concatenate([none, *worse]))


def judged_once(raw: Vector, outputs: numpy.ndarray) -> Vector:
    """`raw` with the judgements of one output averaged, as WMT does before it pairs outputs.

    The first row of each output has the mean, its other rows have NaN. `outputs` (rows,) numbers the outputs.

    >>> judged_once(numpy.array([90.0, 60.0, 50.0]), numpy.array([4, 4, 7]))
    array([75., nan, 50.])
    """
    once: Vector = numpy.full(len(raw), numpy.nan)
    known = numpy.flatnonzero(~numpy.isnan(raw))
    _, first, inverse, counts = numpy.unique(outputs[known], return_index=True, return_inverse=True, return_counts=True)
    once[known[first]] = numpy.bincount(inverse, weights=raw[known], minlength=len(first)) / counts
    return once


def darr_outcomes(pairs: DarrPairs, metric: Vector, ties_count: bool) -> Vector:
    """(pairs,): +1 if the metric agrees with people, -1 if not; a tie is -1 if `ties_count`, else NaN."""
    outcomes: Vector = numpy.sign(metric[pairs.better] - metric[pairs.worse]).astype(numpy.float64)
    outcomes[outcomes == 0] = -1.0 if ties_count else numpy.nan
    return outcomes


def darr(raw: Vector, metric: Vector, segments: numpy.ndarray, *, gap: float, ties_count: bool) -> Darr:
    """DARR: (concordant - discordant) / (concordant + discordant) over `darr_pairs`, all segments pooled.

    A pair on which the metric ties counts as discordant if `ties_count` (WMT from 2018 on), else it is left out.
    Example: three systems translate segment 0, two systems translate segment 1. With a gap of 25, people tell apart
    rows (0, 1), (0, 2) and (3, 4) but not (1, 2). The metric agrees on two of the three pairs: (2 - 1) / 3.

    >>> raw = numpy.array([90.0, 60.0, 50.0, 80.0, 40.0])
    >>> darr(raw, numpy.array([5.0, 4.0, 3.0, 1.0, 2.0]), numpy.array([0, 0, 0, 1, 1]), gap=25, ties_count=True)
    Darr(value=0.3333333333333333, pairs=3)
    """
    outcomes = darr_outcomes(darr_pairs(raw, segments, gap), metric, ties_count)
    outcomes = outcomes[~numpy.isnan(outcomes)]
    return Darr(float(outcomes.mean()) if len(outcomes) else float("nan"), len(outcomes))
