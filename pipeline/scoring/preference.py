"""How surely people rate one candidate above another: P(A better than B), from the difference of their scores.

P = 1 / (1 + exp(-k (score of A - score of B))). This is the model of Bradley and Terry (1952), with the metric's
scores for strengths. The slope k is that of the logistic regression, without intercept, of "people rated A higher" on
the difference, by maximum likelihood. Where people rated both the same, each of the two counts as preferred by half.

Pairs are two different candidates of one reference. Rows of several language pairs may share a reference (WMT's
translations into English do), because people who rated them compared them with the same text. Rows of one language
pair with different sources do not make a pair: they share a reference by accident, or a note in its place.

Is P right? Its expected calibration error (Naeini et al. 2015; Guo et al. 2017, section 2) is measured on references
that the slope was not fitted on: the references are dealt to FOLDS parts, and the pairs of each part get their P from
the slope of all others. Then P of the candidate with the higher score, 50 to 100%, is cut into BINS bins of equal
width, and in each bin its mean is compared with the share of pairs in which people rated that candidate higher. The
error is the mean of these distances, weighted by pairs. Even a P that is right errs by chance, the more the fewer the
pairs: `error_by_chance` says by how much.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from numpy.typing import NDArray

FOLDS = 10
BINS = 10
LEAST_PAIRS, LEAST_REFERENCES = 200, 20
"""With fewer pairs or references, one cannot tell from chance how surely people prefer a candidate."""

NEIGHBOURS = 50
"""Most rows that each row is paired with; this matters if a group is a whole language pair."""

STEEPEST = 50.0
"""Bound of the slope, for differences in units of their root mean square. A metric that never errs would have none."""

SIMULATIONS = 200
SEED = 1
"""Of the folds and of the error by chance."""

SAME_REFERENCE = ("corpus", "reference")
SAME_LANGUAGE_PAIR = ("corpus", "language_pair")

Vector = NDArray[numpy.float64]
Numbers = NDArray[numpy.int64]
Row = dict[str, Any]


@dataclass(frozen=True)
class Pairs:
    """n pairs of candidates A and B.

    `differences` (n,): score of A - score of B. `better` (n,): 1 if people rated A higher, 0 if B, 0.5 if both the
    same. `groups` (n,): number of the pair's reference. `corpora` (n,): number of A's corpus and split in `names`.
    """

    differences: Vector
    better: Vector
    groups: Numbers
    corpora: Numbers
    names: tuple[tuple[str, str], ...]

    def __len__(self) -> int:
        return len(self.differences)

    @property
    def references(self) -> int:
        """How many references there are."""
        return len(numpy.unique(self.groups))

    @property
    def enough(self) -> bool:
        """Whether a slope can be fitted and checked on them."""
        return len(self) >= LEAST_PAIRS and self.references >= LEAST_REFERENCES


def with_rivals(rows: Sequence[Row]) -> list[Row]:
    """Those of the rated `rows` that share their reference with another row."""
    shared = Counter(tuple(row[name] for name in SAME_REFERENCE) for row in rows)
    return [row for row in rows if shared[tuple(row[name] for name in SAME_REFERENCE)] > 1]


def rated_pairs(rows: Sequence[Row], scores: Vector, within: Sequence[str] = SAME_REFERENCE) -> Pairs:
    """Pairs of the rated `rows` (records.RATINGS) with the `scores` (rows,); both agree in the columns `within`.

    A row is paired with at most NEIGHBOURS rows that follow it in its group.
    """
    groups, _ = _numbered([tuple(row[name] for name in within) for row in rows])
    corpora, names = _numbered([(row["corpus"], row["split"]) for row in rows])
    order = numpy.argsort(groups, kind="stable")
    starts = [order[: len(order) - distance] for distance in range(1, NEIGHBOURS + 1) if distance < len(order)]
    left = numpy.concatenate([numpy.zeros(0, numpy.int64), *starts])
    right = numpy.concatenate([numpy.zeros(0, numpy.int64), *(order[len(order) - len(start) :] for start in starts)])
    kept = groups[left] == groups[right]
    if within == SAME_REFERENCE:
        kept &= _comparable(rows, left, right)
    left, right = left[kept], right[kept]
    human = numpy.array([row["score"] for row in rows], dtype=numpy.float64)
    better = 0.5 * (1 + numpy.sign(human[left] - human[right]))
    return Pairs(scores[left] - scores[right], better, groups[left], corpora[left], names)


def _comparable(rows: Sequence[Row], left: Numbers, right: Numbers) -> NDArray[numpy.bool_]:
    """Which rows of one reference are a pair (pairs,): other candidates, not known to be of another source."""
    candidates, _ = _numbered([row["candidate"] for row in rows])
    languages, _ = _numbered([row["language_pair"] for row in rows])
    sources, _ = _numbered([row["source"] for row in rows])
    known = numpy.array([row["source"] is not None for row in rows], dtype=bool)
    apart = known[left] & known[right] & (sources[left] != sources[right]) & (languages[left] == languages[right])
    kept: NDArray[numpy.bool_] = (candidates[left] != candidates[right]) & ~apart
    return kept


def _numbered(values: Sequence[Hashable]) -> tuple[Numbers, tuple[Any, ...]]:
    """The number of each value (values,), counted by first appearance, and the distinct values in that order."""
    numbers: dict[Hashable, int] = {}
    found = numpy.array([numbers.setdefault(value, len(numbers)) for value in values], dtype=numpy.int64)
    return found, tuple(numbers)


def fit_slope(differences: Vector, better: Vector) -> float | None:
    """k above, for `differences` and `better` (pairs,) as in Pairs; None if no pair differs.

    >>> round(fit_slope(numpy.array([1.0, 1.0, 1.0, 1.0]), numpy.array([1.0, 1.0, 1.0, 0.0])), 4)  # log 3
    1.0986
    """
    from scipy.optimize import minimize_scalar

    spread = float(numpy.sqrt(numpy.mean(differences**2))) if len(differences) else 0.0
    if spread == 0:
        return None
    units = differences / spread

    def loss(slope: float) -> float:
        lost = numpy.logaddexp(0, -slope * units), numpy.logaddexp(0, slope * units)
        return float((better * lost[0] + (1 - better) * lost[1]).sum())

    fitted = minimize_scalar(loss, bounds=(-STEEPEST, STEEPEST), method="bounded", options={"xatol": 1e-7})
    return float(fitted.x) / spread


def probabilities(slope: float, differences: Vector) -> Vector:
    """P(A better than B) of `differences` (pairs,); does not overflow."""
    return 0.5 * (1 + numpy.tanh(0.5 * slope * differences))


def held_out_probabilities(pairs: Pairs) -> Vector:
    """P of each pair (pairs,), by the slope of the pairs of other references; `pairs` are enough."""
    numbers = numpy.unique(pairs.groups, return_inverse=True)[1]
    fold = numpy.random.default_rng(SEED).permutation(numbers.max() + 1)[numbers] % FOLDS
    found = numpy.full(len(pairs), 0.5)
    for held in range(FOLDS):
        mine = fold == held
        slope = fit_slope(pairs.differences[~mine], pairs.better[~mine])
        if slope is not None:
            found[mine] = probabilities(slope, pairs.differences[mine])
    return found


def calibration_error(found: Vector, better: Vector) -> float:
    """Expected calibration error of the probabilities `found` (pairs,), in points of 100: 0 to 100, lower is better.

    Four pairs at 75% of which people agree with two are off by 25 points; two at 55% that divide people, by 5:

    >>> round(calibration_error(numpy.array([0.75, 0.75, 0.25, 0.25]), numpy.array([1.0, 0.0, 0.0, 1.0])), 6)
    25.0
    >>> found, better = [0.75, 0.75, 0.25, 0.25, 0.55, 0.45], [1.0, 0.0, 0.0, 1.0, 1.0, 1.0]
    >>> round(calibration_error(numpy.array(found), numpy.array(better)), 6)  # (4 x 25 + 2 x 5) / 6
    18.333333
    """
    favoured = numpy.maximum(found, 1 - found)
    agreed = numpy.where(found > 0.5, better, numpy.where(found < 0.5, 1 - better, 0.5))
    place = numpy.minimum((2 * BINS * (favoured - 0.5)).astype(int), BINS - 1)
    gaps = numpy.bincount(place, weights=agreed - favoured, minlength=BINS)
    return float(100 * numpy.abs(gaps).sum() / len(found))


def error_by_chance(found: Vector) -> float:
    """Mean `calibration_error` of `found` (pairs,) if it were right: people prefer A with just these probabilities.

    Pairs count as independent, though pairs of one reference are not, so real chance may do a little more.
    """
    rng = numpy.random.default_rng(SEED)
    drawn = [(rng.random(len(found)) < found).astype(float) for _ in range(SIMULATIONS)]
    return float(numpy.mean([calibration_error(found, better) for better in drawn]))
