"""The graded candidates of one shard: several kinds for each sentence, drawn from the segments and parallel text.

Paraphrases come from parallel text: two sentences say the same thing if they translate the same sentence. This is the
pivoting of Bannard and Callison-Burch 2005, on whole sentences. Sentences of everyday language are short. So several of
them are joined, to texts as long as those that systems translate.

Pairs for natural language inference come as they are (`pipeline.grade.inference`): people wrote what follows from a
sentence and what contradicts it.
"""

import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Self

import numpy
from pydantic import Field, model_validator

from pipeline.core.errors import InputError
from pipeline.core.params import AtLeastOne, NotNegative, params
from pipeline.core.records import GRADED, SEGMENTS, Reason
from pipeline.core.scripts import length
from pipeline.core.shards import generator, read_shard, table_of
from pipeline.core.work import Outcome
from pipeline.files.parallel import TextSource, check_sources, parallel_sentences
from pipeline.grade.inference import InferenceSource, judged_pairs
from pipeline.grade.kinds import Kind, Pool, Sentence, candidate, names_in

NEED_MORE = (Kind.PARAPHRASE, Kind.UNTRANSLATED)
"""Kinds that need more than the text itself."""

MOST_VERSIONS = 10
"""Most sentences with the same translation that are paired with each other; later ones are left out."""


@params
class ParaphraseParams:
    """Which sentences become paraphrases."""

    sources: tuple[TextSource, ...]
    """Files of parallel text."""
    min_words: AtLeastOne
    """Shorter sentences are left out."""
    max_overlap: Annotated[float, Field(gt=0, le=1)]
    """Two sentences with a larger overlap are no paraphrases (see `overlap`)."""
    longest: AtLeastOne
    """Most sentences that are joined."""

    @model_validator(mode="after")
    def _tells_sources_apart(self) -> Self:
        check_sources(self.sources)
        return self


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
    """About how many of the segments are used; null for all."""
    paraphrases: ParaphraseParams
    inference: tuple[InferenceSource, ...]
    """Tables of premises and hypotheses, of which all are taken."""

    @model_validator(mode="after")
    def _tells_sources_apart(self) -> Self:
        check_sources(self.inference)
        return self

    @model_validator(mode="after")
    def _knows_every_kind(self) -> Self:
        if set(self.kinds) != set(Kind):
            raise ValueError(f"kinds: must name {', '.join(Kind)}, not {', '.join(sorted(self.kinds)) or 'none'}")
        if not any(kind.weight for name, kind in self.kinds.items() if name not in NEED_MORE):
            raise ValueError(f"kinds: must give a weight to a kind other than {' and '.join(NEED_MORE)}")
        return self


@dataclass(frozen=True)
class ShardedGrades:
    """What a shard is made with: the stage's params, and the number of shards that share sentences and segments."""

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
    judged = judged_pairs(params.inference).part(index, sharded.shards)
    dropped += judged.lost
    for row in judged.rows:
        if (row["reference"], row["candidate"]) in rows:
            dropped[Reason.DUPLICATE.value] += 1
        else:
            rows[row["reference"], row["candidate"]] = dict(row)
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


@functools.lru_cache(maxsize=1)
def paraphrased(params: ParaphraseParams, seed: int) -> Sequence[Sentence]:
    """Texts with a paraphrase and a translation, in random order. Each joins one to `longest` sentences of a file."""
    rng = generator(seed, "grade", "paraphrases")
    found = [sentence for source in params.sources for sentence in _joined(_read(source, params, rng), params, rng)]
    return [found[i] for i in rng.permutation(len(found))]


def _joined(sentences: Sequence[Sentence], params: ParaphraseParams, rng: numpy.random.Generator) -> Iterator[Sentence]:
    """`sentences` in random order, joined; how many sentences each text joins is drawn."""
    order = [sentences[i] for i in rng.permutation(len(sentences))]
    first = 0
    while first < len(order):
        parts = order[first : first + int(rng.integers(1, params.longest + 1))]
        first += len(parts)
        texts = (" ".join(getattr(part, side) for part in parts) for side in ("text", "paraphrase", "foreign"))
        yield Sentence(parts[0].id, *texts)


def overlap(one: str, other: str) -> float:
    """Share of the distinct words of two texts that stand in both: 0 (no word in common) to 1 (the same words).

    Case does not count, nor does punctuation at a word's edges.

    >>> overlap("I saw it.", "It saw you!")
    0.5
    """
    words, others = ({word.strip(".,;:!?\"'") for word in text.lower().split()} for text in (one, other))
    return len(words & others) / max(1, len(words | others))


def _read(source: TextSource, params: ParaphraseParams, rng: numpy.random.Generator) -> list[Sentence]:
    """All pairs of sentences of `source` with the same translation. Which of the two is the reference is drawn."""
    versions: dict[str, list[str]] = {}
    for text, foreign in parallel_sentences(source):
        if length(text) >= params.min_words and foreign:
            versions.setdefault(foreign, []).append(text)
    found: list[Sentence] = []
    for foreign, texts in versions.items():
        for pair in combinations(list(dict.fromkeys(texts))[:MOST_VERSIONS], 2):
            if overlap(*pair) <= params.max_overlap:
                first = int(rng.integers(2))
                found.append(Sentence(f"{source.name}-{len(found) + 1}", pair[first], pair[1 - first], foreign))
    if not found:
        raise InputError("has no two sentences with the same translation that differ enough", file=source.file())
    return found
