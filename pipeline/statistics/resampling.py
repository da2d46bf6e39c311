"""The same statistics as `correlation`, for hundreds of resamples of the same rows at once.

A resample is a row of weights: how often each rated row is in it. Segments are drawn, not rows, because the candidates
of one reference share its difficulty and are not independent. Every function takes `weights` (resamples, rows) and
returns (resamples,), NaN if a resample leaves the statistic undefined. With weights of 1 it equals `correlation`.

Kendall uses a matrix of signs, P[i, j] = sign(human_i - human_j) * sign(metric_i - metric_j): concordant minus
discordant pairs of a resample are w P w / 2. The pairs that are tied in a column come from the weights of its groups of
equal values. All sums are exact (over small whole numbers) or numpy's own, not those of BLAS, so that results do not
depend on the number of threads.
"""

import warnings

import numpy
from scipy import stats

from pipeline.statistics.correlation import DarrPairs, Vector

Weights = numpy.ndarray
"""Whole numbers from 0, (resamples, rows)."""

MATRIX_ROWS = 4096
"""For more rows the matrix of signs is too large for a small machine; then scipy computes one tau after the other."""


def segment_weights(segments: numpy.ndarray, resamples: int, rng: numpy.random.Generator) -> Weights:
    """Bootstrap weights: draws as many segments as there are, with replacement; a row counts as often as its segment.

    `segments` (rows,) holds any labels. Returns int64 (resamples, rows).
    """
    _, inverse = numpy.unique(segments, return_inverse=True)
    count = int(inverse.max()) + 1
    draws = rng.multinomial(count, numpy.full(count, 1.0 / count), size=resamples)
    return draws[:, inverse]


def _ratio(upper: Vector, lower: Vector) -> Vector:
    """`upper / lower`; NaN, without a warning, if `lower` is not positive."""
    ratio: Vector = numpy.full(len(upper), numpy.nan)
    numpy.divide(upper, lower, out=ratio, where=lower > 0)
    return ratio


def _untied(values: Vector, weights: Weights) -> Vector:
    """Ordered pairs of rows whose values differ: the square of the total minus the squares of the tied groups."""
    order = numpy.argsort(values, kind="stable")
    starts = numpy.flatnonzero(numpy.r_[True, numpy.diff(values[order]) != 0])
    groups = numpy.add.reduceat(weights[:, order], starts, axis=1).astype(numpy.float64)
    untied: Vector = groups.sum(axis=1) ** 2 - (groups**2).sum(axis=1)
    return untied


def _signs(values: Vector) -> numpy.ndarray:
    signs: numpy.ndarray = numpy.sign(values[:, None] - values[None, :]).astype(numpy.float32)
    return signs


def weighted_kendall(human: Vector, metric: Vector, weights: Weights) -> Vector:
    """Tau-b of every resample."""
    if len(human) > MATRIX_ROWS:
        return _kendall_one_by_one(human, metric, weights)
    product = _signs(human) * _signs(metric)
    # Every partial sum is a whole number below 2**24, hence exact in single precision.
    concordance = ((weights.astype(numpy.float32) @ product).astype(numpy.float64) * weights).sum(axis=1)
    return _ratio(concordance, numpy.sqrt(_untied(human, weights) * _untied(metric, weights)))


def _kendall_one_by_one(human: Vector, metric: Vector, weights: Weights) -> Vector:
    values = numpy.empty(len(weights))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a constant resample gives NaN
        for index, counts in enumerate(weights):
            rows = numpy.repeat(numpy.arange(len(counts)), counts)
            values[index] = stats.kendalltau(human[rows], metric[rows], variant="b").statistic
    return values


def weighted_pearson(human: Vector, metric: Vector, weights: Weights) -> Vector:
    """Pearson's r of every resample."""
    return _weighted_r(_standardised(human)[None, :], _standardised(metric)[None, :], weights)


def _standardised(values: Vector) -> Vector:
    """`values` with mean 0 and deviation 1: r stays the same, and one threshold tells rounding from spread."""
    return numpy.asarray(stats.zscore(values)) if numpy.ptp(values) > 0 else numpy.zeros(len(values))


def _weighted_r(human: numpy.ndarray, metric: numpy.ndarray, weights: Weights) -> Vector:
    """Weighted r; the columns are (1 or resamples, rows)."""
    total = weights.sum(axis=1)[:, None]
    human = human - (weights * human).sum(axis=1)[:, None] / total
    metric = metric - (weights * metric).sum(axis=1)[:, None] / total
    human_square, metric_square = (weights * human**2).sum(axis=1), (weights * metric**2).sum(axis=1)
    # In a constant resample rounding leaves about 1e-30; columns here are standardised, or ranks.
    human_square[human_square < 1e-20] = 0.0
    metric_square[metric_square < 1e-20] = 0.0
    return _ratio((weights * human * metric).sum(axis=1), numpy.sqrt(human_square * metric_square))


def _weighted_ranks(values: Vector, weights: Weights) -> numpy.ndarray:
    """Average rank of each row within each resample, (resamples, rows)."""
    order = numpy.argsort(values, kind="stable")
    starts = numpy.flatnonzero(numpy.r_[True, numpy.diff(values[order]) != 0])
    groups = numpy.add.reduceat(weights[:, order], starts, axis=1).astype(numpy.float64)
    ranks = numpy.cumsum(groups, axis=1) - (groups - 1) / 2
    group_of = numpy.empty(len(values), dtype=numpy.int64)
    group_of[order] = numpy.repeat(numpy.arange(len(starts)), numpy.diff(numpy.r_[starts, len(values)]))
    return ranks[:, group_of]


def weighted_spearman(human: Vector, metric: Vector, weights: Weights) -> Vector:
    """Spearman's rho of every resample; each resample has ranks of its own."""
    return _weighted_r(_weighted_ranks(human, weights), _weighted_ranks(metric, weights), weights)


def weighted_darr(pairs: DarrPairs, outcomes: Vector, weights: Weights) -> Vector:
    """DARR of every resample; a pair counts as often as its segment (see `correlation.darr_outcomes`)."""
    used = ~numpy.isnan(outcomes)
    counts = weights[:, pairs.better[used]].astype(numpy.float64)
    return _ratio((counts * outcomes[used]).sum(axis=1), counts.sum(axis=1))
