"""What a raw score means: its place among human-rated translations, and how certain a difference of two scores is.

`bleurt calibrate` makes `calibration.json`, in a checkpoint's folder, from rated rows, usually the checkpoint's
validation ratings:

- Percentiles: 0 to 100 of the metric's scores over the rated candidates.
- Anchors: median scores of references against themselves, against another reference, and against nothing.
- Range: lowest and highest score of all of these; scores outside it are possible and rare.
- Slope k of P(A better than B), and its calibration error (`pipeline.scoring.preference`). Its pairs are candidates of
  one reference. If the ratings have too few of these, they are pairs of different references of one corpus and language
  pair, which people compare less surely; `pairs_of` says which were used. Without any pairs the slope is null.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy

from pipeline.core.errors import ModelError
from pipeline.scoring.preference import (
    SAME_LANGUAGE_PAIR,
    Pairs,
    Vector,
    calibration_error,
    error_by_chance,
    fit_slope,
    held_out_probabilities,
    rated_pairs,
    with_rivals,
)

FILE = "calibration.json"
PERCENTILES = 101
ANCHOR_REFERENCES = 500
"""Most references that anchors are measured on."""

ONE_REFERENCE, ONE_LANGUAGE_PAIR = "reference", "language pair"
"""What both candidates of a pair share."""

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
class Check:
    """P(A better than B) on the `pairs` of one corpus and split: its calibration error, in points of 100."""

    corpus: str
    split: str
    pairs: int
    error: float
    error_by_chance: float


@dataclass(frozen=True)
class Calibration:
    """Meaning of a checkpoint's scores; `percentiles[p]` is the score that p% of `rows` rated candidates do not exceed.

    `low` and `high` are the documented range. `slope` is k above. It was found on `pairs` pairs, each of one
    "reference" or of one "language pair", as `pairs_of` says. In the first case there were `references` of them, the
    calibration error on held-out references is `error`, in points of 100, a P that is right would have
    `error_by_chance`, and `checks` has the error on each corpus and split. In the other case, and in files of earlier
    versions, these are not known.
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
    pairs_of: str = ONE_REFERENCE  # the meaning of files without this field
    references: int | None = None
    error: float | None = None
    error_by_chance: float | None = None
    checks: tuple[Check, ...] = ()

    def shared(self) -> str:
        """What both candidates of a pair share, in words."""
        if self.pairs_of != ONE_REFERENCE:
            return "different references, which people compare less surely than two candidates of one reference"
        return "one reference" if self.references is None else f"one reference, {self.references:,} references"

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
        checks = tuple(Check(**one) for one in values.get("checks", ()))
        found = Calibration(**{**values, **lists, **nested, "checks": checks})
        numpy.asarray(found.percentiles, dtype=float)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{folder / FILE}: no calibration; write it again or remove it.") from error
    return found


@dataclass(frozen=True)
class Preference:
    """The fields of Calibration that are about P(A better than B)."""

    slope: float | None
    pairs: int
    pairs_of: str
    references: int | None = None
    error: float | None = None
    error_by_chance: float | None = None
    checks: tuple[Check, ...] = ()


def calibrate(
    score: Score, rows: Sequence[dict[str, Any]], split: str, compared: Sequence[dict[str, Any]]
) -> Calibration:
    """The calibration of the scores that `score` gives, on rated `rows` (records.RATINGS), at least one.

    `compared`: rated rows with several candidates of one reference, for P(A better than B).
    """
    human = numpy.array([row["score"] for row in rows])
    scores = score_rows(score, rows)
    anchors = _anchors(score, list(dict.fromkeys(row["reference"] for row in rows))[:ANCHOR_REFERENCES])
    raw = [row["raw"] for row in rows if row["raw"] is not None]
    seen = [*scores.tolist(), *asdict(anchors).values()]
    compared = with_rivals(compared)
    found = preference(rated_pairs(compared, score_rows(score, compared)))
    return Calibration(
        percentiles=tuple(numpy.percentile(scores, numpy.linspace(0, 100, PERCENTILES)).tolist()),
        anchors=anchors,
        low=min(seen),
        high=max(seen),
        human=HumanScale(
            *(float(value) for value in (human.min(), human.max(), human.mean(), human.std())),
            *((min(raw), max(raw)) if raw else (None, None)),
        ),
        corpora=tuple(sorted({row["corpus"] for row in rows})),
        split=split,
        rows=len(rows),
        **vars(found or _of_language_pairs(rated_pairs(rows, scores, SAME_LANGUAGE_PAIR))),
    )


def score_rows(score: Score, rows: Sequence[dict[str, Any]]) -> Vector:
    """Scores of the rated `rows` (rows,), against all references of each."""
    references = [[row["reference"], *row["other_references"]] for row in rows]
    return numpy.array(score(references, [row["candidate"] for row in rows]), dtype=numpy.float64)


def preference(pairs: Pairs) -> Preference | None:
    """P(A better than B) from pairs of one reference, checked on held-out references; None if they are too few."""
    if not pairs.enough:
        return None
    found = held_out_probabilities(pairs)
    checks = []
    for number in dict.fromkeys(pairs.corpora.tolist()):
        mine = pairs.corpora == number
        error = calibration_error(found[mine], pairs.better[mine])
        corpus, split = pairs.names[number]
        checks.append(Check(corpus, split, int(mine.sum()), error, error_by_chance(found[mine])))
    return Preference(
        slope=fit_slope(pairs.differences, pairs.better),
        pairs=len(pairs),
        pairs_of=ONE_REFERENCE,
        references=pairs.references,
        error=calibration_error(found, pairs.better),
        error_by_chance=error_by_chance(found),
        checks=tuple(checks),
    )


def _of_language_pairs(pairs: Pairs) -> Preference:
    return Preference(fit_slope(pairs.differences, pairs.better), len(pairs), ONE_LANGUAGE_PAIR)


def _anchors(score: Score, references: list[str]) -> Anchors:
    """As another reference, each reference gets the one that is half of the list away."""
    others = references[len(references) // 2 :] + references[: len(references) // 2]
    candidates = (references, others, [""] * len(references))
    return Anchors(*(float(numpy.median(score(references, texts))) for texts in candidates))
