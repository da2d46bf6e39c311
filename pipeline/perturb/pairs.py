"""All pairs of one shard of segments (section 4.1), made by the techniques that params.yaml names.

A technique is a module of `pipeline.perturb.techniques` (see `Technique`). To add one, add its module, its section
`perturb.<name>` in params.yaml and its test. The techniques of a section run one after another, in its order. Each of
them sees the segments and the pairs made so far: mask-filling and backtranslation start from the segments, word
dropping from the pairs, and others bring texts from elsewhere; every shard gets its own part of these.

A pair that repeats another of its shard, or whose candidate equals its reference, is dropped and counted.
"""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

import numpy

from pipeline.core import modules
from pipeline.core.params import params
from pipeline.core.records import PAIRS, SEGMENTS, Reason
from pipeline.core.shards import generator, read_shard, table_of
from pipeline.core.work import Outcome
from pipeline.files.character_references import unescaped

TECHNIQUES = "pipeline.perturb.techniques"
"""Package whose modules are the techniques."""


@params
class PerturbParams:
    """The section `perturb` of params.yaml, without the parts that belong to techniques."""

    seed: int


@dataclass(frozen=True)
class Attempt:
    """A candidate for a reference, or the reason why there is none. The other fields are columns of PAIRS."""

    segment_id: str
    reference: str
    tag: str
    """Unique among the attempts for a segment, such as "mask1" or "fr"; ends the pair's id."""
    technique: str
    candidate: str = ""
    reason: Reason | None = None
    pivot: str | None = None
    mask_style: str | None = None
    masks: int | None = None
    dropped_words: int = 0
    parent_id: str | None = None

    @property
    def pair_id(self) -> str:
        """The pair's id, such as "12-3/mask1"."""
        return f"{self.segment_id}/{self.tag}"

    def row(self) -> dict[str, Any]:
        """The row of PAIRS."""
        return {name: getattr(self, name) for name in PAIRS.names}


@dataclass(frozen=True)
class Segment:
    """A sentence of the shard, which becomes a reference."""

    id: str
    text: str


@dataclass(frozen=True)
class Shard:
    """What a technique can make pairs of: the segments, the pairs made so far, and texts from elsewhere."""

    segments: Sequence[Segment]
    pairs: Sequence[Attempt]
    """What the techniques before this one made, only attempts that gave a pair."""
    index: int
    """Number of the shard, from 0; it decides which part of the texts from elsewhere the shard gets."""
    count: int
    """Number of all shards."""
    seed: int
    """The seed of the stage, for draws that must be the same in every shard."""
    rng: numpy.random.Generator
    """Depends on the stage's seed, the shard's number and the technique's name."""


@dataclass(frozen=True)
class Made:
    """What a technique made: its attempts in order, and by reason the number of rows that it did not try."""

    attempts: Sequence[Attempt]
    lost: Counter[str] = field(default_factory=Counter)


class Technique(Protocol):
    """What every module `pipeline.perturb.techniques.<name>` offers."""

    Params: type[Any]
    """Its section `perturb.<name>` of params.yaml, a class made by `pipeline.core.params.params`."""

    def needs(self, params: Any) -> Sequence[Path]:
        """Folders of models and files of text that the pairs depend on; found, and fetched, before any work starts."""
        ...

    def make(self, shard: Shard, params: Any) -> Made:
        """Its attempts for one shard. They depend on `shard` and `params` only, and draw from no other generator."""
        ...


@dataclass(frozen=True)
class Plan:
    """What every shard is made with."""

    seed: int
    techniques: dict[str, Any]
    """Name -> its Params, in the order in which they run."""
    shards: int
    """How many shards share the texts from elsewhere."""


def load_technique(name: str, key: str = "perturb") -> Technique:
    """The module of the technique `name`. If there is none, a ParamsError that begins with `key` lists them."""
    return cast(Technique, modules.load(TECHNIQUES, name, key))


class Pairs:
    """The pairs of one shard so far, in order, and what was dropped by reason. If pairs are equal, the first stays."""

    def __init__(self) -> None:
        self.kept: list[Attempt] = []
        self.dropped: Counter[str] = Counter()
        self._seen: set[tuple[str, str]] = set()

    def add(self, attempt: Attempt) -> None:
        """Keep `attempt`, or count why it gives no pair."""
        texts = (attempt.reference, attempt.candidate)
        reason = attempt.reason
        if reason is None and attempt.candidate == attempt.reference:
            reason = Reason.UNCHANGED
        if reason is None and texts in self._seen:
            reason = Reason.DUPLICATE
        if reason is None:
            self._seen.add(texts)
            self.kept.append(attempt)
        else:
            self.dropped[reason.value] += 1


def perturb_shard(index: int, inputs: Sequence[Path], plan: Plan) -> Outcome:
    """Pairs (schema PAIRS) of the segments in `inputs[0]`; `rows_in` counts attempts and rows that were not tried."""
    rows = read_shard(inputs[0], SEGMENTS).to_pylist()
    segments = [Segment(row["segment_id"], row["text"]) for row in rows]
    pairs, total = Pairs(), 0
    for name, settings in plan.techniques.items():
        rng = generator(plan.seed, "perturb", index, name)
        shard = Shard(segments, tuple(pairs.kept), index, plan.shards, plan.seed, rng)
        made = load_technique(name).make(shard, settings)
        for attempt in made.attempts:
            pairs.add(attempt)
        pairs.dropped += made.lost
        total += len(made.attempts) + made.lost.total()
    table = table_of([attempt.row() for attempt in pairs.kept], PAIRS)
    return Outcome(table, total, len(pairs.kept), dict(sorted(pairs.dropped.items())))


def chosen(count: int, share: float, rng: numpy.random.Generator) -> list[int]:
    """`share` of the numbers 0 … count - 1, to the nearest whole number, drawn without replacement, in order.

    >>> len(chosen(10, 0.3, numpy.random.default_rng(0)))
    3
    """
    return sorted(rng.permutation(count)[: round(count * share)].tolist())


def plain(text: str) -> str:
    """`text` with character references such as `&apos;` undone, and single spaces between its words.

    >>> plain("the&nbsp;Union &apos;s"), plain(" &#32;&nbsp;")
    ("the Union 's", '')
    """
    return " ".join(unescaped(text).split())


def translated(attempt: Attempt, translation: str | None) -> Attempt:
    """`attempt` with what a translator made as its candidate; None says that its text was too long to translate.

    Translators learn from tokenised corpora and write `&apos;` as these do. A translation without a word is no
    candidate.
    """
    if translation is None:
        return dataclasses.replace(attempt, reason=Reason.TOO_LONG)
    candidate = plain(translation)
    reason = None if candidate else Reason.EMPTY_TRANSLATION
    return dataclasses.replace(attempt, candidate=candidate, reason=reason)
