"""The params of fine-tuning, and its lessons: ratings and, beyond the paper, candidates of known quality (`grade`)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy
from numpy.typing import NDArray
from pydantic import model_validator

from pipeline.core.errors import InputError
from pipeline.core.params import AtLeastOne, Positive, ShareBelowOne, params
from pipeline.core.records import GRADED, RATINGS
from pipeline.core.shards import generator, read_rows
from pipeline.training.schedule import Schedule

MEANING = ("adequacy", "semantics")
"""Aspects that a graded candidate says something about. It says nothing of fluency: another sentence is fluent."""


@params
class FinetuneParams:
    """`aspects` are rated, and predicted by one output each; WMT and own files have only one.

    `ratings`: how many rated candidates train, drawn by the schedule's seed; null for all. `members`: how many runs,
    with different orders of batches and different dropout, are averaged weight by weight. `probe`: penalty of the
    ridge regression whose solution the last layer starts from; null for a fresh layer. `graded_share`: share of
    graded candidates in the rows of a pass, `graded_rows` different ones at most. Ratings or graded candidates are
    repeated so that the share holds.
    """

    aspects: tuple[str, ...]
    ratings: AtLeastOne | None
    graded_share: ShareBelowOne
    graded_rows: AtLeastOne
    members: AtLeastOne
    probe: Positive | None
    max_tokens: AtLeastOne
    batch_pairs: AtLeastOne
    dropout: ShareBelowOne
    batch_tokens: AtLeastOne
    schedule: Schedule

    @model_validator(mode="after")
    def check(self) -> "FinetuneParams":
        """A ValueError if no aspect is named, if one is named twice, or if grades would say nothing about any."""
        if not 0 < len(self.aspects) == len(set(self.aspects)):
            raise ValueError(f"aspects: must name at least one aspect, and none twice, not {list(self.aspects)}")
        if self.graded_share and not self.graded_aspects():
            raise ValueError(f"graded_share: must be 0 without {' or '.join(MEANING)}, not {self.graded_share}")
        return self

    def graded_aspects(self) -> list[int]:
        """Places of the aspects that graded candidates are graded for: those of MEANING, or the only one."""
        named = [place for place, aspect in enumerate(self.aspects) if aspect in MEANING]
        return [0] if len(self.aspects) == 1 else named


@dataclass(frozen=True)
class RatedPairs:
    """Pairs and their ratings, float32 (pairs, aspects); NaN for an aspect that is not rated.

    `rows` counts the rows of the split that were read. `dropped` counts, by reason, those of them that are not here.
    """

    references: list[str]
    candidates: list[str]
    ratings: numpy.ndarray
    rows: int
    dropped: dict[str, int]


def read_rated(folder: Path, split: str, aspects: Sequence[str], limit: int | None = None, seed: int = 0) -> RatedPairs:
    """Rows of `split` that rate one of `aspects`; several references make several pairs with the same rating.

    If there are more than `limit` rated candidates, `limit` of them are drawn by `seed`. A draw contains every smaller
    draw by the same seed. Rows that rate no aspect of `aspects` are dropped; no row at all is an InputError.
    """
    rated: dict[str, dict[tuple[str, str], dict[str, float]]] = {}
    rows, dropped, rows_of = 0, Counter[str](), Counter[str]()
    for row in read_rows(folder, RATINGS):
        if row["split"] != split:
            continue
        rows += 1
        if row["aspect"] not in aspects:
            dropped[f"{split} rating of {row['aspect']}"] += 1
            continue
        owner = row["rating_id"].removesuffix(f"/{row['aspect']}")
        rows_of[owner] += 1
        for reference in (row["reference"], *row["other_references"]):
            rated.setdefault(owner, {}).setdefault((reference, row["candidate"]), {})[row["aspect"]] = row["score"]
    if not rated:
        raise InputError(f"has no {split} rating of {', '.join(aspects)}", file=folder)
    owners = list(rated)
    if limit is not None and limit < len(owners):
        chosen = set(generator(seed, "ratings").permutation(len(owners))[:limit].tolist())
        dropped[f"{split} rating not drawn"] = sum(rows_of[o] for i, o in enumerate(owners) if i not in chosen)
        owners = [owner for i, owner in enumerate(owners) if i in chosen]
    texts = [pair for owner in owners for pair in rated[owner]]
    scores = [values for owner in owners for values in rated[owner].values()]
    ratings = numpy.array([[one.get(a, numpy.nan) for a in aspects] for one in scores], dtype=numpy.float32)
    return RatedPairs([z for z, _ in texts], [c for _, c in texts], ratings, rows, dict(sorted(dropped.items())))


@dataclass(frozen=True)
class Lessons:
    """What a run learns from: pairs, and their `targets`, float32 (pairs, aspects), NaN for an aspect that has none.

    A pass over the lessons has a row for each of `slots`, which holds the number of the row's pair; a pair may be there
    several times. `rows` counts the graded candidates that were read, `dropped` those of them that were not drawn.
    """

    references: list[str]
    candidates: list[str]
    targets: numpy.ndarray
    slots: NDArray[numpy.int64]
    rows: int = 0
    dropped: int = 0


def with_graded(rated: RatedPairs, graded: Path, params: FinetuneParams) -> Lessons:
    """The ratings, and beside them graded candidates as `params.graded_share` of the rows of a pass.

    `params.graded_rows` different graded candidates are drawn, or all if there are fewer. Either the ratings or the
    graded candidates are repeated, so that the share holds to within half a repetition: 6 ratings and 8 graded ones
    with a share of 0.25 make a pass of 4 * 6 + 8 rows. A grade counts standard deviations of the ratings from their
    mean, and is a target only for `params.graded_aspects()`. No graded candidate at all is an InputError.
    """
    ours, share = len(rated.references), params.graded_share
    if not share:
        return Lessons(rated.references, rated.candidates, rated.ratings, numpy.arange(ours))
    rows = list(read_rows(graded, GRADED))
    if not rows:
        raise InputError("holds no graded candidate (finetune.graded_share asks for them)", file=graded)
    beside = ours * share / (1 - share)  # graded rows if every rating stands once
    copies = max(1, round(min(params.graded_rows, len(rows)) / beside))
    count = min(params.graded_rows, len(rows), max(1, round(copies * beside)))
    repeated = max(1, round(copies * beside / count))
    drawn = [rows[i] for i in generator(params.schedule.seed, "graded").permutation(len(rows))[:count]]
    steps = numpy.array([row["grade"] for row in drawn], numpy.float32)
    targets = numpy.full((count, len(params.aspects)), numpy.nan, numpy.float32)
    for column in params.graded_aspects():
        known = rated.ratings[:, column][~numpy.isnan(rated.ratings[:, column])]
        if len(known):
            targets[:, column] = known.mean() + known.std() * steps
    return Lessons(
        rated.references + [row["reference"] for row in drawn],
        rated.candidates + [row["candidate"] for row in drawn],
        numpy.concatenate([rated.ratings, targets]),
        numpy.concatenate([*[numpy.arange(ours)] * copies, *[ours + numpy.arange(count)] * repeated]),
        len(rows),
        len(rows) - count,
    )
