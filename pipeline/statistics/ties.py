"""Agreement on pairs of rows where ties count: tau_23 and acc_23, also with the best tie threshold.

People often give two outputs the same rating. A metric that gives them different scores is then wrong, and one that
ties them is right. Of all pairs of rows, a pair is correct if people and the metric order it alike, or if both tie it:

    acc_23 = correct / pairs,    tau_23 = (correct - wrong) / pairs = 2 acc_23 - 1

A metric with real numbers never ties. `best_acc_23` therefore lets it tie all pairs whose scores differ by at most a
threshold, and takes the threshold with the highest acc_23. This is "pairwise accuracy with tie calibration", by which
WMT ranks metrics of segments since 2023.

Pairs are formed inside groups of rows, and the values of the groups are averaged: all rows are one group ("pooled"),
or those of a system, or those of an item (a segment). A group of fewer than two rows has no pair and does not count,
as in mt-metrics-eval; if no group has a pair, the statistic is NaN (there: 0).

Source: Deutsch, Foster, Freitag, "Ties Matter: Meta-Evaluating Modern Metrics with Pairwise Accuracy and Tie
Calibration", EMNLP 2023. By hand: `human = [1, 1, 2]`, `metric = [3, 4, 9]`. People tie the first
pair, the metric does not: two of three pairs are correct, acc_23 = 2 / 3, tau_23 = 1 / 3. With a threshold of 1 the
metric ties the first pair alone, and all three are correct.
"""

from dataclasses import dataclass

import numpy

from pipeline.statistics.correlation import Vector

MOST_PAIRS = 4_000_000
"""All pairs of 2,800 rows. If there are more, so many are drawn: sorting them all would take much memory and time."""


@dataclass(frozen=True)
class Pairs:
    """Pairs of rows of one group; all are (pairs,). `weight` sums to 1: groups weigh the same, and so do their pairs.

    `first` and `second` are row indices.
    """

    first: numpy.ndarray
    second: numpy.ndarray
    weight: Vector


@dataclass(frozen=True)
class Calibrated:
    """`value`: the best acc_23, in [0, 1]. `threshold`: the difference of metric scores up to which it ties."""

    value: float
    threshold: float


def pairs_inside(groups: numpy.ndarray, rng: numpy.random.Generator, most: int = MOST_PAIRS) -> Pairs:
    """All pairs of rows with the same label in `groups` (rows,); if there are more than `most`, so many drawn by `rng`.

    Drawn pairs are drawn with replacement, each pair being equally likely.

    >>> found = pairs_inside(numpy.array([7, 5, 7, 7]), numpy.random.default_rng(1))
    >>> list(zip(found.first.tolist(), found.second.tolist()))
    [(0, 2), (0, 3), (2, 3)]
    """
    order = numpy.argsort(groups, kind="stable")
    _, starts, sizes = numpy.unique(groups[order], return_index=True, return_counts=True)
    counts = sizes * (sizes - 1) // 2
    ends = numpy.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    numbers = numpy.arange(total) if total <= most else rng.integers(0, total, most)
    group = numpy.searchsorted(ends, numbers, side="right")
    within = numbers - (ends - counts)[group]
    # Pair number t of a group is (t - j (j - 1) / 2, j): (0, 1), (0, 2), (1, 2), (0, 3), ...
    second = (1 + numpy.sqrt(1 + 8 * within).astype(numpy.int64)) // 2
    first = within - second * (second - 1) // 2
    drawn = numpy.bincount(group, minlength=len(counts))
    weight = 1.0 / (drawn[group] * max(1, int(numpy.count_nonzero(drawn))))
    return Pairs(order[starts[group] + first], order[starts[group] + second], weight)


def acc_23(human: Vector, metric: Vector, pairs: Pairs) -> float:
    """Share of `pairs` that the metric orders or ties as people do, in [0, 1]; NaN without a pair.

    >>> rows = numpy.array([0, 0, 0])
    >>> pairs = pairs_inside(rows, numpy.random.default_rng(1))
    >>> round(acc_23(numpy.array([1, 1, 2]), numpy.array([3, 4, 9]), pairs), 6)
    0.666667
    """
    if not len(pairs.first):
        return float("nan")
    return float((pairs.weight * _correct(human, metric, pairs)).sum())


def tau_23(human: Vector, metric: Vector, pairs: Pairs) -> float:
    """Correct minus wrong pairs as a share of all `pairs`, in [-1, 1]; NaN without a pair."""
    return 2 * acc_23(human, metric, pairs) - 1


def best_acc_23(human: Vector, metric: Vector, pairs: Pairs) -> Calibrated:
    """The highest acc_23 over all tie thresholds, and the lowest threshold that reaches it; NaN without a pair.

    The thresholds are 0 and every difference of two scores. Averaged over groups, one threshold serves them all. It is
    chosen on the rows that are measured, as in mt-metrics-eval, which flatters every metric alike.

    >>> pairs = pairs_inside(numpy.array([0, 0, 0]), numpy.random.default_rng(1))
    >>> best_acc_23(numpy.array([1, 1, 2]), numpy.array([3, 4, 9]), pairs)
    Calibrated(value=1.0, threshold=1.0)
    """
    if not len(pairs.first):
        return Calibrated(float("nan"), float("nan"))
    gaps = numpy.abs(metric[pairs.first] - metric[pairs.second])
    tied = human[pairs.first] == human[pairs.second]
    gained = pairs.weight * (tied.astype(numpy.float64) - _correct(human, metric, pairs))
    order = numpy.argsort(gaps, kind="stable")
    gaps, gains = gaps[order], numpy.cumsum(gained[order])
    last = numpy.flatnonzero(numpy.r_[numpy.diff(gaps) != 0, True])
    thresholds = numpy.r_[0.0, gaps[last]]
    values = (acc_23(human, metric, pairs) + numpy.r_[0.0, gains[last]]).round(12)  # so that equals stay equal
    best = int(numpy.argmax(values))
    return Calibrated(float(values[best]), float(thresholds[best]))


def _correct(human: Vector, metric: Vector, pairs: Pairs) -> numpy.ndarray:
    """Whether people and the metric order or tie each pair alike, (pairs,)."""
    ours = numpy.sign(human[pairs.first] - human[pairs.second])
    theirs = numpy.sign(metric[pairs.first] - metric[pairs.second])
    correct: numpy.ndarray = ours == theirs
    return correct
