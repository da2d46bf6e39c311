"""Agreement on systems: which of them stand apart from the rest, and how many pairs of systems a metric orders rightly.

Human scores stand before metric scores. Higher is better. What is not defined (too few systems, no segment that all
systems translate) is NaN.

- **Outliers** (Mathur, Baldwin, Cohn, "Tangled up in BLEU", ACL 2020): one very bad system makes every
  metric's Pearson high. A system is an outlier if people's score of it lies more than 2.5 deviations from the median,
  where a deviation is 1.483 times the median distance from the median.
- **Pairwise accuracy** (Kocmi and others, "To Ship or Not to Ship", WMT 2021): share of the pairs of systems whose
  difference has the same sign for people and the metric. As in mt-metrics-eval, a tie is right if both tie.
- **Soft pairwise accuracy** (Thompson and others, "Improving Statistical Significance in Human Evaluation of Automatic
  Metrics via Soft Pairwise Accuracy", WMT 2024): instead of the sign, the p-values that people's and the metric's
  segment scores give for "the one system is better than the other" are compared: 1 minus their mean distance.

By hand: `human = [1, 2, 3]`, `metric = [5, 4, 9]`. The metric has the first pair of systems the wrong way, the other
two right: pairwise accuracy is 2 / 3.
"""

import numpy

from pipeline.statistics.correlation import Vector

MOST_DEVIATIONS = 2.5
DEVIATION = 1.483
"""A normal distribution's standard deviation in units of its median absolute deviation."""


def inliers(human: Vector) -> numpy.ndarray:
    """Which systems are no outliers, (systems,) of truth values, by people's scores (systems,).

    If more than half of the systems have one score, the rule has no unit, and no system is an outlier.

    >>> inliers(numpy.array([0.1, 0.2, 0.3, 0.4, -2.0])).tolist()
    [True, True, True, True, False]
    """
    distance = numpy.abs(human - numpy.median(human))
    unit = DEVIATION * float(numpy.median(distance))
    kept: numpy.ndarray = distance <= MOST_DEVIATIONS * unit if unit > 0 else numpy.ones(len(human), dtype=bool)
    return kept


def pairwise_accuracy(human: Vector, metric: Vector) -> float:
    """Share of the pairs of systems that people and the metric order (or tie) alike, in [0, 1]; NaN below two systems.

    >>> round(pairwise_accuracy(numpy.array([1, 2, 3]), numpy.array([5, 4, 9])), 6)
    0.666667
    """
    first, second = numpy.triu_indices(len(human), 1)
    if not len(first):
        return float("nan")
    return float((numpy.sign(human[first] - human[second]) == numpy.sign(metric[first] - metric[second])).mean())


def random_signs(permutations: int, segments: int, rng: numpy.random.Generator) -> numpy.ndarray:
    """-1 or 1, (permutations, segments), for `soft_pairwise_accuracy`; drawn as mt-metrics-eval draws them."""
    return numpy.where(rng.random((permutations, segments), dtype=numpy.float32) > 0.5, 1.0, -1.0)


def p_better(scores: numpy.ndarray, signs: numpy.ndarray) -> Vector:
    """For each pair of systems the p-value of "the first is better than the second", (pairs,), by paired permutation.

    `scores` (systems, segments), `signs` (permutations, segments): where it is -1, the segment swaps the two systems.
    The p-value is the share of the permutations whose difference is at least the observed one. Near 0 the first system
    is better, near 1 it is worse. Pairs stand in the order of `numpy.triu_indices`.
    """
    first, second = numpy.triu_indices(len(scores), 1)
    totals, swapped = scores.sum(axis=1), signs @ scores.T
    # A permuted sum may miss the observed one by rounding alone, which must not make it smaller.
    allowance = 1e-9 * float(numpy.abs(scores).sum(axis=1).max(initial=0.0))
    p_values: Vector = (swapped[:, first] - swapped[:, second] >= (totals[first] - totals[second]) - allowance).mean(0)
    return p_values


def soft_pairwise_accuracy(human: numpy.ndarray, metric: numpy.ndarray, signs: numpy.ndarray) -> float:
    """1 minus the mean distance of people's and the metric's p-values, in [0, 1]; NaN below two systems or segments.

    `human` and `metric` are (systems, segments) without gaps, `signs` comes from `random_signs`: people and all metrics
    meet the same permutations, which takes noise out of their comparison.

    >>> scores = numpy.array([[1.0, 2.0, 3.0], [2.0, 3.0, 5.0]])
    >>> soft_pairwise_accuracy(scores, 10 * scores, random_signs(100, 3, numpy.random.default_rng(1)))
    1.0
    """
    assert human.shape == metric.shape and human.shape[1:] == signs.shape[1:], (human.shape, metric.shape, signs.shape)
    if min(human.shape) < 2:
        return float("nan")
    return 1.0 - float(numpy.abs(p_better(human, signs) - p_better(metric, signs)).mean())
