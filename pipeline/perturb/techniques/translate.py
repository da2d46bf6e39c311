"""Translations of parallel text: a technique of its own beside the paper's three.

A translator of our own reads the foreign side; what it makes stands beside the human sentence of the same meaning. Such
candidates are shaped like the outputs that people rate, and there is a reference of its own for each of them, where a
campaign has many outputs of few references. What tokenised corpora write as `&apos;` becomes a character on both sides.
"""

import functools
import html
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.core.errors import ParamsError
from pipeline.core.records import Reason
from pipeline.core.scripts import length
from pipeline.core.seeds import generator
from pipeline.files.parallel import Draw, TextSource, hold_distinct, parallel_sentences
from pipeline.perturb.attempts import Attempt, Technique, hold_within, without_translation
from pipeline.teachers.translator import load_translator


@dataclass(frozen=True)
class ParallelSource(TextSource):
    """Parallel text and the model that translates its foreign side."""

    model: str


@dataclass(frozen=True)
class TranslateParams:
    """`pairs` sentences are drawn from all sources together, 0 for none; of equal sentences only the first counts."""

    sources: tuple[ParallelSource, ...]
    pairs: int
    language: str
    """ISO 639-1 code of the sentences, into which their translations are translated back."""
    min_words: int
    max_words: int
    beam_width: int
    batch_sentences: int

    def __post_init__(self) -> None:
        hold_within("perturb.translate.pairs", self.pairs, 0)
        hold_within("perturb.translate.min_words", self.min_words, 1)
        hold_within("perturb.translate.max_words", self.max_words, self.min_words)
        hold_within("perturb.translate.beam_width", self.beam_width, 1)
        hold_within("perturb.translate.batch_sentences", self.batch_sentences, 1)
        hold_distinct("perturb.translate.sources", self.sources)
        if self.pairs and not self.sources:
            raise ParamsError(f"perturb.translate.pairs: is {self.pairs}, but there are no sources.")


@dataclass(frozen=True)
class Drawn:
    """A sentence to be met again from its translation; `id` is `<source>-<number of the line>`, empty lines apart."""

    id: str
    reference: str
    foreign: str
    model: str


@functools.lru_cache(maxsize=1)
def sentences(params: TranslateParams, seed: int) -> Draw[Drawn]:
    """`params.pairs` sentences in random order, or all where there are fewer."""
    found: dict[str, Drawn] = {}
    lost: Counter[str] = Counter()
    for source in params.sources if params.pairs else ():
        for number, (escaped, foreign) in enumerate(parallel_sentences(source), start=1):
            text = html.unescape(escaped)
            if not text or not foreign:
                lost[Reason.EMPTY_TEXT.value] += 1
            elif not params.min_words <= length(text) <= params.max_words:
                lost[Reason.WORDS.value] += 1
            elif text in found:
                lost[Reason.DUPLICATE.value] += 1
            else:
                found[text] = Drawn(f"{source.name}-{number}", text, foreign, source.model)
    return Draw.of(list(found.values()), lost, params.pairs, generator(seed, "perturb", "translate"))


def translate(drawn: Sequence[Drawn], params: TranslateParams) -> list[Attempt]:
    """One attempt for each sentence, in order; `segment` is the index in `drawn`."""
    candidates: dict[int, str] = {}
    for model in sorted({sentence.model for sentence in drawn}):
        translator = load_translator(model)
        whole = [i for i, s in enumerate(drawn) if s.model == model and translator.fits(s.foreign)]
        texts = [drawn[i].foreign for i in whole]
        made = translator.translate(texts, params.language, params.beam_width, params.batch_sentences)
        candidates.update(zip(whole, made, strict=True))
    return [_attempt(i, candidates.get(i)) for i in range(len(drawn))]


def _attempt(index: int, candidate: str | None) -> Attempt:
    reason = without_translation(candidate)
    return Attempt(index, "translation", Technique.TRANSLATE, html.unescape(candidate or ""), reason)
