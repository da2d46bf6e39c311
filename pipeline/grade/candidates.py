"""The graded candidates of one shard: some kinds for each sentence drawn from the segments and from parallel text."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy

from pipeline.core.params import require
from pipeline.core.records import GRADED, SEGMENTS, Reason
from pipeline.core.seeds import generator
from pipeline.core.shards import read_shard, table_of
from pipeline.core.work import Outcome
from pipeline.grade.kinds import Kind, Pool, Sentence, candidate, names_in
from pipeline.grade.paraphrases import ParaphraseParams, paraphrased


@dataclass(frozen=True)
class KindParams:
    """`grade`: the target, in standard deviations of ratings from their mean; `weight`: how often it is drawn.

    0 leaves a kind out. The paraphrase is not drawn but made wherever there is one, whatever weight it has but 0.
    """

    grade: float
    weight: float


@dataclass(frozen=True)
class GradeParams:
    """The section `grade` of params.yaml.

    `segments`: about how many of the segments take part, None for all. `draws`: how many kinds are drawn for each
    sentence, beside its paraphrase.
    """

    seed: int
    kinds: dict[str, KindParams]
    draws: int
    segments: int | None
    paraphrases: ParaphraseParams

    def __post_init__(self) -> None:
        require(set(self.kinds) == set(Kind), "grade.kinds", f"name {', '.join(Kind)}", sorted(self.kinds))
        for name, kind in self.kinds.items():
            require(kind.weight >= 0, f"grade.kinds.{name}.weight", "be 0 or more", kind.weight)
        need_more = (Kind.PARAPHRASE, Kind.UNTRANSLATED)  # than the text
        drawn = any(kind.weight for name, kind in self.kinds.items() if name not in need_more)
        require(drawn, "grade.kinds", "give a weight to a kind other than these", list(need_more))
        require(self.draws > 0, "grade.draws", "be at least 1", self.draws)
        enough = self.segments is None or self.segments > 0
        require(enough, "grade.segments", "be at least 1 or null", self.segments)


@dataclass(frozen=True)
class ShardedGrades:
    """What a shard is made by: the stage's params, and the number of shards that share sentences and segments."""

    grade: GradeParams
    shards: int


def grade_shard(index: int, inputs: Sequence[Path], sharded: ShardedGrades) -> Outcome:
    """Candidates (schema GRADED) for the shard's share of the sentences; `rows_in` counts attempts.

    Wrong names, clauses and whole sentences come from the other sentences of the shard.
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
    """The paraphrase where there is one, and as many of the other kinds as are to be drawn, each once."""
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
