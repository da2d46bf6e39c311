"""Backtranslation (section 4.1, A.1): each segment goes to a pivot language and back, one best translation each way.

The paper's models are tensor2tensor Transformers; ours are Marian models (see `pipeline.teachers.translator`).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from pydantic import model_validator

from pipeline.core.models import locate
from pipeline.core.params import AtLeastOne, Share, params
from pipeline.perturb.pairs import Attempt, Made, Segment, Shard, chosen, translated
from pipeline.teachers.translator import Pivots, load_translator


@params
class Params:
    """Which segments go through which pivots, and how wide the search is."""

    share: Share
    """Share of the segments; each pivot has its own draw."""
    language: str
    """ISO 639-1 code of the segments' language, into which the way back translates."""
    pivots: Pivots
    """Code of another language -> models there and back; the paper's languages are "fr" and "de"."""
    beam_width: AtLeastOne
    batch_sentences: AtLeastOne
    """Changes speed, not results."""

    @model_validator(mode="after")
    def _goes_through_other_languages(self) -> Self:
        if self.language in self.pivots:
            raise ValueError(f"pivots: {self.language} is the segments' own language")
        return self


def needs(params: Params) -> tuple[Path, ...]:
    """The folders of all pivots' models."""
    return tuple(locate(name) for pivot in params.pivots.values() for name in (pivot.to, pivot.back))


def make(shard: Shard, params: Params) -> Made:
    """One attempt for each pivot and drawn segment, pivot by pivot."""
    attempts: list[Attempt] = []
    for language in sorted(params.pivots):
        places = chosen(len(shard.segments), params.share, shard.rng)
        attempts += _through(language, [shard.segments[place] for place in places], params)
    return Made(attempts)


def _through(language: str, segments: Sequence[Segment], params: Params) -> list[Attempt]:
    to, back = (load_translator(name) for name in (params.pivots[language].to, params.pivots[language].back))
    whole = [i for i, segment in enumerate(segments) if to.fits(segment.text)]
    there = to.translate([segments[i].text for i in whole], language, params.beam_width, params.batch_sentences)
    again = back.translate(there, params.language, params.beam_width, params.batch_sentences)
    found = dict(zip(whole, again, strict=True))
    attempts = [Attempt(segment.id, segment.text, language, "backtranslate", pivot=language) for segment in segments]
    return [translated(attempt, found.get(i)) for i, attempt in enumerate(attempts)]
