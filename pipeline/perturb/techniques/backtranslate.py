"""Backtranslation (section 4.1, A.1): each segment goes to a pivot language and back, one best translation each way.

The paper's models are tensor2tensor Transformers; ours are Marian models (see `pipeline.teachers.translator`).
"""

import html
from collections.abc import Sequence
from dataclasses import dataclass

import numpy

from pipeline.core.errors import ParamsError
from pipeline.perturb.attempts import Attempt, Technique, chosen, hold_within, without_translation
from pipeline.teachers.translator import Pivot, load_translator


@dataclass(frozen=True)
class BacktranslateParams:
    """Which segments go through which pivots, and how wide the search is."""

    share: float
    """Fraction of the segments for each pivot, 0 to 1, drawn for each pivot apart."""
    language: str
    """ISO 639-1 code of the segments, into which the way back translates."""
    pivots: dict[str, Pivot]
    """Code of another language -> models there and back; the paper's are "fr" and "de"."""
    beam_width: int
    batch_sentences: int

    def __post_init__(self) -> None:
        hold_within("perturb.backtranslate.share", self.share, 0, 1)
        hold_within("perturb.backtranslate.beam_width", self.beam_width, 1)
        hold_within("perturb.backtranslate.batch_sentences", self.batch_sentences, 1)
        if self.language in self.pivots:
            raise ParamsError(f"perturb.backtranslate.pivots: {self.language} is the segments' own language.")


def backtranslate(texts: Sequence[str], params: BacktranslateParams, rng: numpy.random.Generator) -> list[Attempt]:
    """One attempt for each pivot and drawn segment, pivot by pivot; `segment` is the index in `texts`."""
    attempts = []
    for language in sorted(params.pivots):
        attempts += _through(language, texts, chosen(len(texts), params.share, rng), params)
    return attempts


def _through(language: str, texts: Sequence[str], segments: list[int], params: BacktranslateParams) -> list[Attempt]:
    to, back = (load_translator(name) for name in (params.pivots[language].to, params.pivots[language].back))
    fits = {i: to.fits(texts[i]) for i in segments}
    whole = [i for i in segments if fits[i]]
    there = to.translate([texts[i] for i in whole], language, params.beam_width, params.batch_sentences)
    again = back.translate(there, params.language, params.beam_width, params.batch_sentences)
    candidates = dict(zip(whole, again, strict=True))
    return [_attempt(i, language, candidates.get(i)) for i in segments]


def _attempt(segment: int, language: str, candidate: str | None) -> Attempt:
    reason = without_translation(candidate)
    return Attempt(segment, language, Technique.BACKTRANSLATE, html.unescape(candidate or ""), reason, pivot=language)
