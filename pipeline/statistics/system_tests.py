"""Is a system better than another, beyond chance? Paired tests on segment scores, of each system against the first.

Scores are (systems, segments), higher is better, and a system's score is the mean over its segments. Two tests, both
two-sided and paired: the bootstrap draws segments with replacement, the same ones for all systems (Koehn 2004), and
gives the intervals too; approximate randomisation asks how often a difference as large appears when chance decides, in
each segment, which of the two systems gave which score (Noreen 1989). Several systems make several comparisons: their
p-values are corrected together by Holm's step-down method (1979), which holds for tests that depend on each other.

A worked example: the first system scores 1, 2, 3 and another 2, 2, 5, so the differences are 1, 0, 2 and their mean is
1. Of the four ways to sign 1 and 2, two have a mean of at least 1 in size, hence p = 1/2 by randomisation. With a tie
width of 1, one segment of three got better and two are ties.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy

from pipeline.core.errors import ParamsError
from pipeline.core.seeds import generator
from pipeline.statistics.correlation import Vector
from pipeline.statistics.metric_tests import Interval, interval, paired_bootstrap
from pipeline.statistics.resampling import segment_weights

BLOCK_NUMBERS = 4_000_000
"""Random numbers in memory at once; the size of the block changes no result."""

METHOD = (
    "Paired bootstrap of segments and paired approximate randomisation of the mean score, two-sided, Holm's correction "
    "over the comparisons with the first system"
)


@dataclass(frozen=True)
class Settings:
    """How the tests are run.

    `resamples`: of the bootstrap. `permutations`: of the randomisation. `confidence` (0-1): of the intervals.
    `tie_width`: two scores of a segment that differ by at most so much are a tie. `seed`: equal seeds, equal results.
    """

    resamples: int
    permutations: int
    confidence: float
    tie_width: float
    seed: int

    def __post_init__(self) -> None:
        for name in ("resamples", "permutations"):
            if getattr(self, name) < 1:
                raise ParamsError(f"{name}: must be at least 1, not {getattr(self, name)}.")
        if not 0 < self.confidence < 1:
            raise ParamsError(f"confidence: must lie between 0 and 1, not {self.confidence}.")
        if not 0 <= self.tie_width < math.inf:
            raise ParamsError(f"tie_width: must be a number from 0, not {self.tie_width}.")


@dataclass(frozen=True)
class Standing:
    """A system's mean score and its bootstrap interval (NaN below two segments)."""

    mean: float
    interval: Interval


@dataclass(frozen=True)
class Difference:
    """A system less the first: mean difference, its interval, p-values as they are and by Holm, shares of segments.

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
    """p-value of the mean of paired `differences` (segments,) when each of them has a sign by chance.

    The observed signs count among the permuted ones, so the p-value is at least 1 / (permutations + 1); it is 1 where
    all differences are 0.
    """
    total = float(differences.sum())
    # The same sum in another order may differ by rounding; a difference below this share of the whole means nothing.
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
    """As `randomise`, for a corpus score of summed statistics; `first` and `second` are (segments, statistics)."""
    whole, moved = first.sum(0), second - first
    least = abs(score(second.sum(0)) - score(whole)) - 1e-9
    extreme = 0
    for swapped in _swaps(permutations, len(first), seed):
        for change in swapped @ moved:
            extreme += abs(score(second.sum(0) - change) - score(whole + change)) >= least
    return (extreme + 1) / (permutations + 1)


def _swaps(permutations: int, segments: int, seed: int) -> Iterator[numpy.ndarray]:
    """Blocks of permutations, (permutations, segments): 1 where chance swaps the two systems in a segment."""
    rng = generator(seed, "compare", "randomisation")
    for size in _blocks(permutations, segments):
        words = rng.integers(0, 2**64, size=(size, -(-segments // 64)), dtype=numpy.uint64)
        yield numpy.unpackbits(words.view(numpy.uint8), axis=1, count=segments)


def _blocks(count: int, width: int) -> Iterator[int]:
    """Sizes of blocks of rows of `width` numbers, `count` rows in all."""
    size = max(1, BLOCK_NUMBERS // width)
    yield from (min(size, count - start) for start in range(0, count, size))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the given order: reject those that are at most the level wanted for all together.

    NaN stays NaN and counts as no comparison.

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


def shares(differences: Vector, tie_width: float) -> tuple[float, float, float]:
    """Share of segments that got better, got worse, and are ties: differ by at most `tie_width`.

    >>> shares(numpy.array([0.3, -0.1, 0.0, -0.4]), tie_width=0.1)
    (0.25, 0.25, 0.5)
    """
    better, worse = int((differences > tie_width).sum()), int((differences < -tie_width).sum())
    count = len(differences)
    return better / count, worse / count, (count - better - worse) / count


def most_changed(differences: Vector, count: int) -> list[int]:
    """The segments with the largest differences in size, largest first, earlier first among equals; no unchanged one.

    >>> most_changed(numpy.array([0.1, -0.5, 0.0, 0.3]), 2)
    [1, 3]
    """
    order = numpy.argsort(-numpy.abs(differences), kind="stable")[:count]
    return [int(row) for row in order if differences[row] != 0]
