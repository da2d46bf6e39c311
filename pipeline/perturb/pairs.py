"""All pairs of one shard of segments (section 4.1): mask-filling, backtranslation, then word dropping.

Outputs of real systems and translations of parallel text, where there are any, are dealt out among the shards before
words are dropped. A pair that repeats another of its shard, or whose candidate equals its reference, is dropped and
counted.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy

from pipeline.core.records import PAIRS, SEGMENTS, Reason
from pipeline.core.seeds import generator
from pipeline.core.shards import read_shard, table_of
from pipeline.core.work import Outcome
from pipeline.perturb.attempts import Attempt, chosen, pair
from pipeline.perturb.techniques.backtranslate import BacktranslateParams, backtranslate
from pipeline.perturb.techniques.mask_fill import MaskFillParams, mask_fill
from pipeline.perturb.techniques.system_outputs import SystemOutputsParams, drawn
from pipeline.perturb.techniques.translate import TranslateParams, sentences, translate
from pipeline.perturb.techniques.word_drop import WordDropParams, drop_words

Row = dict[str, Any]


@dataclass(frozen=True)
class PerturbParams:
    """The section `perturb` of params.yaml."""

    seed: int
    mask_fill: MaskFillParams
    backtranslate: BacktranslateParams
    system_outputs: SystemOutputsParams
    translate: TranslateParams
    word_drop: WordDropParams

    def models(self) -> list[str]:
        """Names of all models that the pairs depend on, each once."""
        names = {name for pivot in self.backtranslate.pivots.values() for name in (pivot.to, pivot.back)}
        if self.translate.pairs:
            names |= {source.model for source in self.translate.sources}
        return sorted({self.mask_fill.model} | names)


@dataclass(frozen=True)
class ShardedParams:
    """What a shard is made by: the stage's params, and the number of shards that share the texts from elsewhere."""

    perturb: PerturbParams
    shards: int


class Pairs:
    """The rows of one shard so far, in order, and what was dropped; the first of equal pairs stays."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.dropped: Counter[str] = Counter()
        self._seen: set[tuple[str, str]] = set()

    def attempted(self, segment_id: str, reference: str, attempt: Attempt) -> None:
        """Keep what came of `attempt`, or count why nothing did."""
        if attempt.reason is None:
            self.add(pair(segment_id, reference, attempt))
        else:
            self.dropped[attempt.reason.value] += 1

    def add(self, row: Row) -> None:
        """Keep `row`, unless it teaches nothing new."""
        key = (row["reference"], row["candidate"])
        if key[0] == key[1]:
            self.dropped[Reason.UNCHANGED.value] += 1
        elif key in self._seen:
            self.dropped[Reason.DUPLICATE.value] += 1
        else:
            self._seen.add(key)
            self.rows.append(row)


def perturb_shard(index: int, inputs: Sequence[Path], sharded: ShardedParams) -> Outcome:
    """Pairs (schema PAIRS) of the segments in `inputs[0]`; `rows_in` counts attempts, dropped copies included.

    The first shard counts the rows of texts from elsewhere that no shard got.
    """
    params = sharded.perturb
    segments = read_shard(inputs[0], SEGMENTS).to_pylist()
    texts = [segment["text"] for segment in segments]
    pairs = Pairs()
    attempts = mask_fill(texts, params.mask_fill, generator(params.seed, "perturb", index, "mask_fill"))
    attempts += backtranslate(texts, params.backtranslate, generator(params.seed, "perturb", index, "backtranslate"))
    for attempt in attempts:
        segment = segments[attempt.segment]
        pairs.attempted(segment["segment_id"], segment["text"], attempt)
    outputs, parallel = drawn(params.system_outputs, params.seed), sentences(params.translate, params.seed)
    lost = outputs.lost + parallel.lost if index == 0 else Counter()
    own_outputs = outputs.rows[index :: sharded.shards]
    own_parallel = parallel.rows[index :: sharded.shards]
    for row in own_outputs:
        pairs.add(row)
    for sentence, attempt in zip(own_parallel, translate(own_parallel, params.translate), strict=True):
        pairs.attempted(sentence.id, sentence.reference, attempt)
    copies = shortened(pairs.rows, params.word_drop.share, generator(params.seed, "perturb", index, "word_drop"))
    for copy in copies:
        pairs.add(copy)
    pairs.dropped += lost
    total = len(attempts) + len(own_outputs) + len(own_parallel) + len(copies) + lost.total()
    return Outcome(table_of(pairs.rows, PAIRS), total, len(pairs.rows), dict(sorted(pairs.dropped.items())))


def shortened(rows: Sequence[Row], share: float, rng: numpy.random.Generator) -> list[Row]:
    """Copies of `share` of the pairs with words dropped from their candidates; all else is their parent's."""
    copies = []
    for parent in (rows[i] for i in chosen(len(rows), share, rng)):
        short = drop_words(parent["candidate"], rng)
        changed = {"pair_id": f"{parent['pair_id']}/drop", "candidate": short.text, "dropped_words": short.dropped}
        copies.append({**parent, **changed, "parent_id": parent["pair_id"]})
    return copies
