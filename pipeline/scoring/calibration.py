"""What a raw score means: its place among human-rated translations, and how certain a difference of two scores is.

`bleurt calibrate` makes `calibration.json`, in a checkpoint's folder, from rated rows, usually the checkpoint's
validation ratings:

- Percentiles: 0 to 100 of the metric's scores over the rated candidates.
- Anchors: median scores of references against themselves, against another reference, and against nothing.
- Range: lowest and highest score of all of these; scores outside it are possible and rare.
- Slope k: P(A better than B) = 1 / (1 + exp(-k (score of A - score of B))). This is the logistic regression, without
  intercept, of "people rated A higher" on the difference of the metric's scores, by maximum likelihood (scipy). Its
  pairs are all pairs of candidates of one reference that people rated differently. If no reference has two rated
  candidates, they are pairs of different references of one corpus and language pair, which people compare less surely;
  `pairs_of` says which were used. Without any pairs the slope is null.
"""

import json
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray

from pipeline.core.errors import ModelError

FILE = "calibration.json"
PERCENTILES = 101
ANCHOR_REFERENCES = 500
"""Most references that anchors are measured on."""

NEIGHBOURS = 50
"""Most rows that each row is paired with; this matters if a group is a whole language pair."""

STEEPEST = 50.0
"""Bound of the slope, for differences in units of their root mean square. A metric that never errs would have none."""

Vector = NDArray[numpy.float64]

Score = Callable[[Sequence[str | Sequence[str]], Sequence[str]], Sequence[float]]
"""References (a text, or a list of texts, for each candidate) and candidates -> scores, as `BleurtScorer.score`."""


@dataclass(frozen=True)
class Anchors:
    """Median scores of references against three candidates: themselves, another reference, nothing."""

    identical: float
    unrelated: float
    empty: float


@dataclass(frozen=True)
class HumanScale:
    """The ratings behind it, as the metric is trained on them, higher is better: bounds, mean, standard deviation.

    `raw_low` and `raw_high` are bounds on the judges' own scale, 0-100 in WMT; None if it is not known.
    """

    low: float
    high: float
    mean: float
    deviation: float
    raw_low: float | None
    raw_high: float | None


@dataclass(frozen=True)
class Calibration:
    """Meaning of a checkpoint's scores; `percentiles[p]` is the score that p% of `rows` rated candidates do not exceed.

    `low` and `high` are the documented range. `slope` is k above. It was found on `pairs` pairs, each of one
    "reference" or of one "language pair", as `pairs_of` says.
    """

    percentiles: tuple[float, ...]
    anchors: Anchors
    low: float
    high: float
    human: HumanScale
    slope: float | None
    corpora: tuple[str, ...]
    split: str
    rows: int
    pairs: int
    pairs_of: str = "reference"  # the meaning of files without this field

    def percentile(self, score: float) -> float:
        """Share of human-rated candidates that score lower, 0 to 100; linear between two percentiles."""
        return float(numpy.interp(score, self.percentiles, numpy.linspace(0, 100, len(self.percentiles))))

    def probability_better(self, difference: float) -> float | None:
        """P(A better than B) of two candidates of one reference, from score of A - score of B; None without a slope."""
        if self.slope is None:
            return None
        return 0.5 * (1 + math.tanh(0.5 * self.slope * difference))


def load_calibration(folder: Path) -> Calibration | None:
    """The calibration of the checkpoint in `folder`, or None if it has none; a damaged file is a ModelError."""
    try:
        values = json.loads((folder / FILE).read_text(encoding="utf-8"))
        lists = {name: tuple(values[name]) for name in ("percentiles", "corpora")}
        nested = {"anchors": Anchors(**values["anchors"]), "human": HumanScale(**values["human"])}
        found = Calibration(**{**values, **lists, **nested})
        numpy.asarray(found.percentiles, dtype=float)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{folder / FILE}: no calibration; write it again or remove it.") from error
    return found


def fit_slope(differences: Vector, better: NDArray[numpy.bool_]) -> float | None:
    """k of the logistic regression of `better` on `differences`, both (pairs,), through the origin; None without pairs.

    >>> round(fit_slope(numpy.array([1.0, 1.0, 1.0, 1.0]), numpy.array([True, True, True, False])), 4)  # log 3
    1.0986
    """
    from scipy.optimize import minimize_scalar

    spread = float(numpy.sqrt(numpy.mean(differences**2))) if len(differences) else 0.0
    if spread == 0:
        return None
    won = numpy.where(better, differences, -differences) / spread
    fitted = minimize_scalar(
        lambda slope: float(numpy.logaddexp(0, -slope * won).sum()),
        bounds=(-STEEPEST, STEEPEST), method="bounded", options={"xatol": 1e-7},
    )  # fmt: skip
    return float(fitted.x) / spread


SEGMENT = ("corpus", "language_pair", "segment", "reference")
LANGUAGE_PAIR = ("corpus", "language_pair")


def rated_pairs(
    rows: Sequence[dict[str, Any]], scores: Vector, within: Sequence[str] = SEGMENT
) -> tuple[Vector, NDArray[numpy.bool_]]:
    """For pairs of rows with different ratings: score of A - score of B, and whether people rated A higher.

    Both rows of a pair agree in the columns `within`. A row is paired with at most NEIGHBOURS rows that follow it.
    """
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        groups[tuple(row[name] for name in within)].append(number)
    differences, better = [], []
    human = numpy.array([row["score"] for row in rows])
    for group in groups.values():
        members = numpy.array(group)
        for distance in range(min(NEIGHBOURS + 1, len(members))):
            left, right = members[: len(members) - distance], members[distance:]
            told_apart = human[left] != human[right]
            differences.append((scores[left] - scores[right])[told_apart])
            better.append((human[left] > human[right])[told_apart])
    return numpy.concatenate(differences), numpy.concatenate(better)


def calibrate(score: Score, rows: Sequence[dict[str, Any]], split: str) -> Calibration:
    """The calibration of the scores that `score` gives, on rated `rows` (records.RATINGS), at least one."""
    human = numpy.array([row["score"] for row in rows])
    references = [[row["reference"], *row["other_references"]] for row in rows]
    scores = numpy.array(score(references, [row["candidate"] for row in rows]))
    pairs_of, (differences, better) = "reference", rated_pairs(rows, scores)
    if not len(differences):
        pairs_of, (differences, better) = "language pair", rated_pairs(rows, scores, LANGUAGE_PAIR)
    anchors = _anchors(score, list(dict.fromkeys(row["reference"] for row in rows))[:ANCHOR_REFERENCES])
    raw = [row["raw"] for row in rows if row["raw"] is not None]
    seen = [*scores.tolist(), *asdict(anchors).values()]
    return Calibration(
        percentiles=tuple(numpy.percentile(scores, numpy.linspace(0, 100, PERCENTILES)).tolist()),
        anchors=anchors,
        low=min(seen),
        high=max(seen),
        human=HumanScale(
            *(float(value) for value in (human.min(), human.max(), human.mean(), human.std())),
            *((min(raw), max(raw)) if raw else (None, None)),
        ),
        slope=fit_slope(differences, better),
        corpora=tuple(sorted({row["corpus"] for row in rows})),
        split=split,
        rows=len(rows),
        pairs=len(differences),
        pairs_of=pairs_of,
    )


def _anchors(score: Score, references: list[str]) -> Anchors:
    """As another reference, each reference gets the one that is half of the list away."""
    others = references[len(references) // 2 :] + references[: len(references) // 2]
    candidates = (references, others, [""] * len(references))
    return Anchors(*(float(numpy.median(score(references, texts))) for texts in candidates))
