"""Translations of parallel text: beyond the paper's three techniques.

One of our translators reads the foreign side of parallel text. What it makes stands beside the human sentence with the
same meaning. Such candidates look like the outputs that people rate, and each of them has a reference of its own,
whereas a campaign has many outputs of few references. On both sides, what tokenised corpora write as `&apos;` becomes
a character.
"""

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pydantic import model_validator

from pipeline.core.models import locate
from pipeline.core.params import AtLeastOne, AtLeastZero, ModelName, params
from pipeline.core.records import Reason
from pipeline.core.scripts import length
from pipeline.core.shards import generator
from pipeline.files.parallel import Draw, TextSource, check_sources, parallel_sentences
from pipeline.perturb.pairs import Attempt, Made, Shard, plain, translated
from pipeline.teachers.translator import load_translator


@params
class ParallelSource(TextSource):
    """Parallel text, and the model that translates its foreign side."""

    model: ModelName


@params
class Params:
    """Which sentences are used, and how their foreign sides are translated."""

    sources: tuple[ParallelSource, ...]
    pairs: AtLeastZero
    """How many different sentences are drawn from all sources together; 0 for none."""
    language: str
    """ISO 639-1 code of the sentences' language, into which the foreign sides are translated."""
    min_words: AtLeastOne
    max_words: int
    """Shorter and longer sentences are left out."""
    beam_width: AtLeastOne
    batch_sentences: AtLeastOne
    """Changes speed, not results."""

    @model_validator(mode="after")
    def _has_sources(self) -> Self:
        check_sources(self.sources, self.pairs)
        if self.max_words < self.min_words:
            raise ValueError(f"max_words: must be at least {self.min_words}, not {self.max_words}")
        return self


def needs(params: Params) -> tuple[Path, ...]:
    """The files of the sources and the folders of their models."""
    sources = params.sources if params.pairs else ()
    return tuple(place for source in sources for place in (locate(source.model), source.file()))


@dataclass(frozen=True)
class Drawn:
    """A sentence and its foreign side; the id is `<source>-<number of the line>`, empty lines not counted."""

    id: str
    reference: str
    foreign: str
    model: str


def make(shard: Shard, params: Params) -> Made:
    """One attempt for each sentence of the shard's part, in order."""
    own = sentences(params, shard.seed).part(shard.index, shard.count)
    found = _translations(own.rows, params)
    attempts = [Attempt(one.id, one.reference, "translation", "translate") for one in own.rows]
    return Made([translated(attempt, found.get(i)) for i, attempt in enumerate(attempts)], own.lost)


@functools.lru_cache(maxsize=1)
def sentences(params: Params, seed: int) -> Draw[Drawn]:
    """`params.pairs` sentences in random order, or all if there are fewer."""
    found: dict[str, Drawn] = {}
    lost: Counter[str] = Counter()
    for source in params.sources if params.pairs else ():
        for number, (escaped, foreign) in enumerate(parallel_sentences(source), start=1):
            text = plain(escaped)
            if not text or not plain(foreign):
                lost[Reason.EMPTY_TEXT.value] += 1
            elif not params.min_words <= length(text) <= params.max_words:
                lost[Reason.WORDS.value] += 1
            elif text in found:
                lost[Reason.DUPLICATE.value] += 1
            else:
                found[text] = Drawn(f"{source.name}-{number}", text, foreign, source.model)
    return Draw.of(list(found.values()), lost, params.pairs, generator(seed, "perturb", "translate"))


def _translations(drawn: Sequence[Drawn], params: Params) -> dict[int, str]:
    """Index in `drawn` -> translation of its foreign side, except for those that are too long for their model."""
    found: dict[int, str] = {}
    for model in sorted({sentence.model for sentence in drawn}):
        translator = load_translator(model)
        whole = [i for i, one in enumerate(drawn) if one.model == model and translator.fits(one.foreign)]
        texts = [drawn[i].foreign for i in whole]
        made = translator.translate(texts, params.language, params.beam_width, params.batch_sentences)
        found.update(zip(whole, made, strict=True))
    return found
