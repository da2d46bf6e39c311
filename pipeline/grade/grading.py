"""The graded candidates of one shard: several kinds for each sentence, drawn from the segments and parallel text."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy
from pydantic import model_validator

from pipeline.core.params import AtLeastOne, NotNegative, params
from pipeline.core.records import GRADED, SEGMENTS, Reason
from pipeline.core.shards import generator, read_shard, table_of
from pipeline.core.work import Outcome
from pipeline.grade.kinds import Kind, Pool, Sentence, candidate, names_in
from pipeline.grade.paraphrases import ParaphraseParams, paraphrased

NEED_MORE = (Kind.PARAPHRASE, Kind.UNTRANSLATED)
"""Kinds that need more than the text itself."""


@params
class KindParams:
    """The grade of a kind, and how often the kind is drawn."""

    grade: float
    """The target, in standard deviations of people's ratings from their mean."""
    weight: NotNegative
    """The chance to be drawn, relative to other kinds; 0 leaves the kind out.

    A paraphrase is not drawn but made for every sentence that has one, unless its weight is 0.
    """


@params
class GradeParams:
    """The section `grade` of params.yaml."""

    seed: int
    kinds: dict[str, KindParams]
    """One entry for every kind."""
    draws: AtLeastOne
    """How many kinds are drawn for each sentence, beside its paraphrase."""
    segments: AtLeastOne | None
    """About how many of the segments take part; null for all."""
    paraphrases: ParaphraseParams

    @model_validator(mode="after")
    def _knows_every_kind(self) -> Self:
        if set(self.kinds) != set(Kind):
            raise ValueError(f"kinds: must name {', '.join(Kind)}, not {', '.join(sorted(self.kinds)) or 'none'}")
        if not any(kind.weight for name, kind in self.kinds.items() if name not in NEED_MORE):
            raise ValueError(f"kinds: must give a weight to a kind other than {' and '.join(NEED_MORE)}")
        return self


@dataclass(frozen=True)
class ShardedGrades:
    """What a shard is made by: the stage's params, and the number of shards that share sentences and segments."""

    grade: GradeParams
    shards: int


def grade_shard(index: int, inputs: Sequence[Path], sharded: ShardedGrades) -> Outcome:
    """Candidates (schema GRADED) for the shard's part of the sentences; `rows_in` counts attempts.

    Wrong names, extra clauses and unrelated sentences come from other sentences of the shard.
    """
    params = sharded.grade
    rng = generator(params.seed, "grade", index)
    segments = [Sentence(row["segment_id"], row["text"]) for row in read_shard(inputs[0], SEGMENTS).to_pylist()]
    sentences = list(paraphrased(params.paraphrases, params.seed)[index :: sharded.shards])
    pool = _pool([*segments, *sentences])
    if params.segments is not None:
        segments = [segments[i] for i in rng.permutation(len(segments))[: -(-params.segments // sharded.shards)]]
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    dropped: Counter[str] = Counter()
    for sentence in [*segments, *sentences]:
        for kind in _drawn(sentence, params, rng):
            text = candidate(kind, sentence, pool, rng)
            if text is None:
                dropped[f"{kind} impossible"] += 1
            elif text == sentence.text and kind is not Kind.IDENTICAL:
                dropped[Reason.UNCHANGED.value] += 1
            elif (sentence.text, text) in rows:
                dropped[Reason.DUPLICATE.value] += 1
            else:
                rows[sentence.text, text] = {
                    "pair_id": f"{sentence.id}/{kind}",
                    "reference": sentence.text,
                    "candidate": text,
                    "kind": kind.value,
                    "grade": params.kinds[kind].grade,
                }
    return Outcome(table_of(list(rows.values()), GRADED), len(rows) + dropped.total(), len(rows), dict(dropped))


def _drawn(sentence: Sentence, params: GradeParams, rng: numpy.random.Generator) -> list[Kind]:
    """The kinds to make: the paraphrase, if there is one, and `params.draws` of the others, all different."""
    known = {Kind.PARAPHRASE: sentence.paraphrase is not None, Kind.UNTRANSLATED: sentence.foreign is not None}
    possible = [kind for kind in Kind if params.kinds[kind].weight and known.get(kind, True)]
    others = [kind for kind in possible if kind is not Kind.PARAPHRASE]
    weights = numpy.array([params.kinds[kind].weight for kind in others])
    places = rng.choice(len(others), min(params.draws, len(others)), replace=False, p=weights / weights.sum())
    drawn = [others[place] for place in places]
    return [Kind.PARAPHRASE, *drawn] if Kind.PARAPHRASE in possible else drawn


def _pool(sentences: Sequence[Sentence]) -> Pool:
    texts = [sentence.text for sentence in sentences]
    return Pool(texts, [name for text in texts for name in names_in(text)])
