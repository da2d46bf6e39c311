"""The params of fine-tuning, and its lessons: ratings and, beyond the paper, candidates of known quality (`grade`)."""

import fnmatch
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray
from pydantic import model_validator

from pipeline.core.errors import InputError, ParamsError
from pipeline.core.params import AtLeastOne, Positive, ShareBelowOne, params
from pipeline.core.records import GRADED, RATINGS
from pipeline.core.shards import generator, read_rows
from pipeline.finetune.heads import Encoder, EsimParams, EstimatorParams, RegressorParams, System
from pipeline.metric.beside import BY_REFERENCE, Beside, Reads
from pipeline.metric.regressor import Inputs
from pipeline.training.schedule import Schedule

MEANING = ("adequacy", "semantics")
"""Aspects that a graded candidate says something about. It says nothing of fluency: another sentence is fluent."""


GRADED_CORPUS = "graded"
"""The name under which `shares` asks for graded candidates."""


@params
class FinetuneParams:
    """`aspects` are rated, and predicted by one output each; WMT and own files have only one.

    `reads`: what stands beside the candidate (`pipeline.metric.beside`). `encoder`: whether its weights learn. `head`:
    the pre-trained one, or another system's, with its section (`pipeline.finetune.heads`).

    `language_pairs`: shell patterns such as "*-en"; ratings of a pair that matches one of these, and none of
    `without_language_pairs`, train and choose. `ratings`: how many rated candidates train, drawn by the schedule's
    seed; null for all. `members`: how many runs, with different orders of batches and different dropout, are averaged
    weight by weight.

    The last layer is fresh; or, with `start`, that of a column of pre-training, such as `metric_score`, or of an aspect
    of a checkpoint that was fine-tuned before; or, with `probe`, the solution of a ridge regression with this penalty.
    `adapter`: rank of the matrices that are trained in place of the encoder's weights; null trains the weights.

    `shares`: which share of the rows of a run a corpus has, or `graded` candidates; the other corpora share the rest.
    `own_scale`: corpora whose ratings lie on a scale of their own, learned beside the metric. `validation_pairs`: at
    most so many pairs of each group of corpora choose the best checkpoint; null for all. A corpus of `own_scale` is a
    group, the others are one.
    """

    reads: Reads
    encoder: Encoder
    head: System
    regressor: RegressorParams
    esim: EsimParams
    estimator: EstimatorParams
    aspects: tuple[str, ...]
    language_pairs: tuple[str, ...]
    without_language_pairs: tuple[str, ...]
    ratings: AtLeastOne | None
    shares: dict[str, ShareBelowOne]
    own_scale: tuple[str, ...]
    members: AtLeastOne
    start: str | None
    probe: Positive | None
    adapter: AtLeastOne | None
    validation_pairs: AtLeastOne | None
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
        if sum(self.shares.values()) >= 1:
            raise ValueError(f"shares: must leave something for the other corpora, not {dict(self.shares)}")
        if self.graded_share and not self.graded_aspects():
            raise ValueError(f"shares: must not name graded without {' or '.join(MEANING)}, not {dict(self.shares)}")
        if self.graded_share and self.reads.source:
            raise ValueError(f"shares: must not name graded with reads {self.reads}, graded candidates have no source")
        return self

    @model_validator(mode="after")
    def _fit_the_head(self) -> "FinetuneParams":
        """A ValueError if a key does not go with `head`, `reads` or `encoder`."""
        if self.adapter is not None and self.encoder is Encoder.FROZEN:
            raise ValueError(f"adapter: must be null with a frozen encoder, not {self.adapter}")
        if self.head is System.KEPT:
            return self
        for key in ("start", "probe", "adapter"):
            if getattr(self, key) is not None:
                raise ValueError(f"{key}: must be null with head {self.head}, not {getattr(self, key)}")
        if self.reads is Reads.BOTH and (self.head is System.ESIM or self.regressor.inputs is Inputs.APART):
            raise ValueError("reads: must be reference or source where texts are read apart, not both")
        if self.head is System.ESTIMATOR and self.reads is not Reads.SOURCE:
            raise ValueError(f"reads: must be source with head estimator, not {self.reads}")
        if self.has_grid and self.members > 1:
            raise ValueError(f"members: must be 1 with a grid of perceptrons, not {self.members}")
        if self.head is System.REGRESSOR and not self.has_grid and len(self.regressor.shapes) > 1:
            raise ValueError("regressor: must name one shape if the encoder is tuned, a frozen one allows a grid")
        return self

    @property
    def has_grid(self) -> bool:
        """Whether perceptrons of several shapes learn from what a frozen encoder reads."""
        return self.head is System.REGRESSOR and self.encoder is Encoder.FROZEN

    @property
    def graded_share(self) -> float:
        """Share of graded candidates in the rows of a run."""
        return self.shares.get(GRADED_CORPUS, 0.0)

    def graded_aspects(self) -> list[int]:
        """Places of the aspects that graded candidates are graded for: those of MEANING, or the only one."""
        named = [place for place, aspect in enumerate(self.aspects) if aspect in MEANING]
        return [0] if len(self.aspects) == 1 else named


@dataclass(frozen=True)
class RatedPairs:
    """Pairs, their ratings, float32 (pairs, aspects), NaN for an aspect that is not rated, and where they come from.

    `references` hold what is read beside the candidate (`finetune.reads`): references, sources, or both in one text.
    `corpora` and `language_pairs` name those of each pair; the latter are empty where a rating has none.
    `rows` counts the rows of the split that were read. `dropped` counts, by reason, those of them that are not here.
    """

    references: list[str]
    candidates: list[str]
    ratings: numpy.ndarray
    corpora: list[str]
    language_pairs: list[str]
    rows: int
    dropped: dict[str, int]


def read_rated(
    folder: Path,
    split: str,
    aspects: Sequence[str],
    limit: int | None = None,
    seed: int = 0,
    beside: Beside = BY_REFERENCE,
    pairs: Sequence[str] = ("*",),
    without: Sequence[str] = (),
) -> RatedPairs:
    """Rows of `split` that rate one of `aspects`; several references make several pairs with the same rating.

    `pairs` and `without` are patterns of language pairs. `beside` says what is read beside the candidate; where that is
    the source, rows without one are dropped.

    If there are more than `limit` rated candidates, `limit` of them are drawn by `seed`. A draw contains every smaller
    draw by the same seed. Rows that rate no aspect of `aspects` are dropped; no row at all is an InputError.
    """
    rated: dict[str, dict[tuple[str, str], dict[str, float]]] = {}
    origin_of: dict[str, tuple[str, str]] = {}
    rows, dropped, rows_of = 0, Counter[str](), Counter[str]()
    for row in read_rows(folder, RATINGS):
        if row["split"] != split:
            continue
        rows += 1
        if row["aspect"] not in aspects:
            dropped[f"{split} rating of {row['aspect']}"] += 1
            continue
        if not _matches(row["language_pair"], pairs) or _matches(row["language_pair"], without):
            dropped[f"{split} rating of another language pair"] += 1
            continue
        if beside.reads.source and row["source"] is None:
            dropped[f"{split} rating without a source"] += 1
            continue
        owner = row["rating_id"].removesuffix(f"/{row['aspect']}")
        rows_of[owner] += 1
        origin_of[owner] = row["corpus"], row["language_pair"] or ""
        for reference in (row["reference"], *row["other_references"]):
            pair = beside.text(reference, row["source"]), row["candidate"]
            rated.setdefault(owner, {}).setdefault(pair, {})[row["aspect"]] = row["score"]
    if not rated:
        sourced = " with a source" if beside.reads.source else ""
        raise InputError(f"has no {split} rating of {', '.join(aspects)}{sourced}", file=folder)
    owners = list(rated)
    if limit is not None and limit < len(owners):
        chosen = set(generator(seed, "ratings").permutation(len(owners))[:limit].tolist())
        dropped[f"{split} rating not drawn"] = sum(rows_of[o] for i, o in enumerate(owners) if i not in chosen)
        owners = [owner for i, owner in enumerate(owners) if i in chosen]
    texts = [pair for owner in owners for pair in rated[owner]]
    origins = [origin_of[owner] for owner in owners for _ in rated[owner]]
    scores = [values for owner in owners for values in rated[owner].values()]
    ratings = numpy.array([[one.get(a, numpy.nan) for a in aspects] for one in scores], dtype=numpy.float32)
    left = dict(sorted(dropped.items()))
    return RatedPairs(
        [z for z, _ in texts],
        [c for _, c in texts],
        ratings,
        [corpus for corpus, _ in origins],
        [pair for _, pair in origins],
        rows,
        left,
    )


def _matches(language_pair: str | None, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(language_pair or "", pattern) for pattern in patterns)


@dataclass(frozen=True)
class Lessons:
    """What a run learns from: pairs, and their `targets`, float32 (pairs, aspects), NaN for an aspect that has none.

    `corpora` names the corpus of each pair. A pass has a row for each of `slots`, which holds the number of the row's
    pair; a pair may be there several times. `graded` counts the graded candidates among the pairs.
    """

    references: list[str]
    candidates: list[str]
    targets: numpy.ndarray
    corpora: list[str]
    slots: NDArray[numpy.int64]
    graded: int = 0


def lessons_of(rated: RatedPairs, graded: Path, params: FinetuneParams) -> Lessons:
    """The ratings and, where `params.shares` asks for them, graded candidates.

    Without shares a pass holds every rating once. With shares a pass is the whole run: each share of its rows, and the
    rest, is drawn by the seed in whole passes over its pairs, the last of them in part. With 8 rows, 3 ratings and a
    share of 0.25 for 9 graded candidates, a run has each rating twice and 2 different graded candidates. A share of a
    corpus without ratings is a ParamsError, and no graded candidate at all an InputError.
    """
    if not params.shares:
        return Lessons(
            rated.references, rated.candidates, rated.ratings, rated.corpora, numpy.arange(len(rated.references))
        )
    made = _graded(rated, graded, params) if params.graded_share else []
    targets = numpy.full((len(made), len(params.aspects)), numpy.nan, numpy.float32)
    steps = numpy.array([row["grade"] for row in made], numpy.float32)
    for column in params.graded_aspects() if made else []:
        known = rated.ratings[:, column][~numpy.isnan(rated.ratings[:, column])]
        if len(known):
            targets[:, column] = known.mean() + known.std() * steps
    corpora = rated.corpora + [GRADED_CORPUS] * len(made)
    return Lessons(
        rated.references + [row["reference"] for row in made],
        rated.candidates + [row["candidate"] for row in made],
        numpy.concatenate([rated.ratings, targets]),
        corpora,
        drawn_slots(corpora, params),
        len(made),
    )


def _graded(rated: RatedPairs, graded: Path, params: FinetuneParams) -> list[dict[str, Any]]:
    """So many graded candidates as a run has rows for, drawn by the seed."""
    rows = list(read_rows(graded, GRADED))
    if not rows:
        raise InputError("holds no graded candidate (finetune.shares asks for them)", file=graded)
    count = min(len(rows), round(params.graded_share * params.schedule.steps * params.batch_pairs))
    return [rows[i] for i in generator(params.schedule.seed, "graded").permutation(len(rows))[: max(1, count)]]


def drawn_slots(corpora: Sequence[str], params: FinetuneParams) -> NDArray[numpy.int64]:
    """The pair of every row of a run: (steps * batch_pairs,), corpus after corpus; `BatchPlan` mixes them."""
    total, names = params.schedule.steps * params.batch_pairs, numpy.array(corpora)
    shared = [names == corpus for corpus in params.shares]
    counts = [round(share * total) for share in params.shares.values()]
    found = []
    for what, places, count in zip(
        [*params.shares, "the other corpora"],
        [*shared, ~numpy.logical_or.reduce(shared)],
        [*counts, total - sum(counts)],
        strict=True,
    ):
        rows = numpy.flatnonzero(places)
        if not len(rows):
            raise ParamsError(f"finetune.shares: there is no training rating of {what}, to which it gives a share.")
        passes = range(-(-count // len(rows)))
        drawn = [generator(params.schedule.seed, "share", what, one).permutation(rows) for one in passes]
        found.append(numpy.concatenate([rows[:0], *drawn])[:count])
    return numpy.concatenate(found)
