"""Systems compared by one metric: is a system better than the first one, beyond chance?

Scores are (systems, segments), higher is better. A system's score is the mean over its segments. Both tests are
two-sided and paired. The bootstrap draws segments with replacement, the same ones for all systems (Koehn 2004); it also
gives the intervals. Approximate randomisation asks how often a difference as large appears if, in each segment, chance
decides which of the two systems gave which score (Noreen 1989). All p-values of one test are corrected together by
Holm's method.

A worked example: the first system scores 1, 2, 3 and another one scores 2, 2, 5, so the differences are 1, 0, 2 and
their mean is 1. Of the four ways to sign 1 and 2, two have a mean of at least 1 in size, hence p = 1/2 by
randomisation. With a tie width of 1, one segment of three got better and two are ties.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy

from pipeline.core.params import AtLeastOne, Between, NotNegative, params
from pipeline.core.shards import generator
from pipeline.statistics.correlation import Vector
from pipeline.statistics.resampling import segment_weights
from pipeline.statistics.tests import Interval, holm, interval, paired_bootstrap

BLOCK_NUMBERS = 4_000_000
"""Random numbers in memory at once; the size of the block changes no result."""

METHOD = (
    "Paired bootstrap of segments and paired approximate randomisation of the mean score, two-sided, Holm's correction "
    "over the comparisons with the first system"
)


@params
class Settings:
    """How the tests are run.

    `resamples`: of the bootstrap. `permutations`: of the randomisation. `confidence`: of the intervals. `tie_width`:
    two scores of a segment that differ by at most this much are a tie. `seed`: equal seeds give equal results.
    """

    resamples: AtLeastOne
    permutations: AtLeastOne
    confidence: Between
    tie_width: NotNegative
    seed: int


@dataclass(frozen=True)
class Standing:
    """A system's mean score and its bootstrap interval (NaN below two segments)."""

    mean: float
    interval: Interval


@dataclass(frozen=True)
class Difference:
    """A system minus the first: mean difference, its interval, p-values without and with Holm, shares of segments.

    `better`, `worse` and `tied` sum to 1. Below two segments nothing can be tested: intervals and p-values are NaN.
    """

    mean: float
    interval: Interval
    p_bootstrap: float
    p_randomisation: float
    p_bootstrap_holm: float
    p_randomisation_holm: float
    better: float
    worse: float
    tied: float


@dataclass(frozen=True)
class Outcome:
    """One standing for every system, and one difference for every system but the first."""

    standings: tuple[Standing, ...]
    differences: tuple[Difference, ...]


def compare_scores(scores: numpy.ndarray, settings: Settings) -> Outcome:
    """Everything about `scores` (systems, segments), with at least one system and one segment."""
    assert scores.ndim == 2 and scores.size, scores.shape
    resampled = resampled_means(scores, settings.resamples, settings.seed)
    testable = scores.shape[1] > 1
    if not testable:
        resampled = numpy.full_like(resampled, numpy.nan)
    standings = tuple(
        Standing(float(own.mean()), interval(means, settings.confidence))
        for own, means in zip(scores, resampled, strict=True)
    )
    differences = scores[1:] - scores[0]
    moved = resampled[1:] - resampled[0]
    bootstrap = [paired_bootstrap(row) for row in moved]
    randomisation = [
        randomise(row, settings.permutations, settings.seed) if testable else math.nan for row in differences
    ]
    corrected = zip(bootstrap, randomisation, holm(bootstrap), holm(randomisation), strict=True)
    return Outcome(
        standings,
        tuple(
            Difference(
                float(row.mean()), interval(means, settings.confidence), *p_values, *shares(row, settings.tie_width)
            )
            for row, means, p_values in zip(differences, moved, corrected, strict=True)
        ),
    )


def resampled_means(scores: numpy.ndarray, resamples: int, seed: int) -> numpy.ndarray:
    """Mean of every system on the same bootstrap resamples of the segments: (systems, resamples)."""
    segments = numpy.arange(scores.shape[1])
    rng = generator(seed, "compare", "bootstrap")
    means = [
        scores @ segment_weights(segments, size, rng).T / len(segments) for size in _blocks(resamples, len(segments))
    ]
    return numpy.concatenate(means, axis=1)


def randomise(differences: Vector, permutations: int, seed: int) -> float:
    """p-value of the mean of paired `differences` (segments,) if chance gives each of them its sign.

    The observed signs count among the permuted ones, so the p-value is at least 1 / (permutations + 1). It is 1 if all
    differences are 0.
    """
    total = float(differences.sum())
    # The same sum in another order may differ by rounding, which must not count as a smaller difference.
    least = abs(total) - 1e-9 * float(numpy.abs(differences).sum())
    extreme = 0
    for swapped in _swaps(permutations, len(differences), seed):
        extreme += int((numpy.abs(total - 2 * (swapped @ differences)) >= least).sum())
    return (extreme + 1) / (permutations + 1)


def randomise_corpus(
    first: numpy.ndarray,
    second: numpy.ndarray,
    score: Callable[[numpy.ndarray], float],
    permutations: int,
    seed: int,
) -> float:
    """As `randomise`, for a corpus score computed from summed counts; `first` and `second` are (segments, counts)."""
    whole, moved = first.sum(0), second - first
    least = abs(score(second.sum(0)) - score(whole)) - 1e-9
    extreme = 0
    for swapped in _swaps(permutations, len(first), seed):
        for change in swapped @ moved:
            extreme += abs(score(second.sum(0) - change) - score(whole + change)) >= least
    return (extreme + 1) / (permutations + 1)


def _swaps(permutations: int, segments: int, seed: int) -> Iterator[numpy.ndarray]:
    """Blocks of permutations, (permutations, segments): 1 if chance swaps the two systems in that segment."""
    rng = generator(seed, "compare", "randomisation")
    for size in _blocks(permutations, segments):
        words = rng.integers(0, 2**64, size=(size, -(-segments // 64)), dtype=numpy.uint64)
        yield numpy.unpackbits(words.view(numpy.uint8), axis=1, count=segments)


def _blocks(count: int, width: int) -> Iterator[int]:
    """Sizes of blocks of rows of `width` numbers, `count` rows in all."""
    size = max(1, BLOCK_NUMBERS // width)
    yield from (min(size, count - start) for start in range(0, count, size))


def shares(differences: Vector, tie_width: float) -> tuple[float, float, float]:
    """Shares of segments that got better, that got worse, and that are ties (differ by at most `tie_width`).

    >>> shares(numpy.array([0.3, -0.1, 0.0, -0.4]), tie_width=0.1)
    (0.25, 0.25, 0.5)
    """
    better, worse = int((differences > tie_width).sum()), int((differences < -tie_width).sum())
    count = len(differences)
    return better / count, worse / count, (count - better - worse) / count


def most_changed(differences: Vector, count: int) -> list[int]:
    """Numbers of the segments whose scores changed most, largest change first; unchanged segments are left out.

    >>> most_changed(numpy.array([0.1, -0.5, 0.0, 0.3]), 2)
    [1, 3]
    """
    order = numpy.argsort(-numpy.abs(differences), kind="stable")[:count]
    return [int(row) for row in order if differences[row] != 0]
