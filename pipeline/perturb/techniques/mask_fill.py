"""Mask-filling (section 4.1, A.1): words of a segment are masked, and a masked language model fills them in again.

There are two styles. Both mask whole words, with one mask for each word piece and at most `max_masks` in a segment:
random words, whose number is uniform; or one contiguous span, whose length and then whose start is uniform. The masks
are filled by beam search (see `pipeline.teachers.mask_filler`).

Where the paper is silent, or we deviate:
- the candidate is the best hypothesis that changes the text, since a candidate equal to its reference teaches
  nothing. If no hypothesis changes it, as can happen with a narrow beam, the attempt is dropped as unchanged;
- `max_mask_share` can limit how much of a short sentence is masked (1, the paper's, sets no limit);
- words that are not masked keep their spelling (see `pipeline.perturb.splice`).
"""

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import numpy
from pydantic import model_validator

from pipeline.core.models import locate
from pipeline.core.params import AtLeastOne, ModelName, Share, params
from pipeline.core.records import Reason
from pipeline.perturb.pairs import Attempt, Made, Shard, chosen
from pipeline.perturb.splice import splice, usual_spelling
from pipeline.teachers.mask_filler import Masked, MaskFiller, Tokenized, load_filler


class MaskStyle(enum.StrEnum):
    """Masks at random words, or over one contiguous span of words."""

    RANDOM = "random"
    SPAN = "span"


@params
class Params:
    """What is masked, which model fills it, and how wide the search is."""

    model: ModelName
    share: Share
    """Of the segments, drawn at random."""
    copies: AtLeastOne
    """Attempts for each drawn segment."""
    styles: tuple[MaskStyle, ...]
    """One of these is drawn for each attempt."""
    max_masks: AtLeastOne
    """Most masks in a segment; the paper's is 15."""
    max_mask_share: Share
    """Most words masked, as a share of the segment's words. One word is always allowed."""
    beam_width: AtLeastOne
    """The paper's is 8."""
    batch_tokens: AtLeastOne
    """Word pieces in one forward pass, over all hypotheses; changes speed, not results."""

    @model_validator(mode="after")
    def _has_a_style(self) -> Self:
        if not self.styles:
            raise ValueError(f"styles: must name at least one of {', '.join(MaskStyle)}")
        return self


def needs(params: Params) -> tuple[Path, ...]:
    """The model's folder."""
    return (locate(params.model),)


def make(shard: Shard, params: Params) -> Made:
    """`copies` attempts for each drawn segment, segment by segment."""
    filler = load_filler(params.model)
    texts = [segment.text for segment in shard.segments]
    tokenized = filler.read(texts)
    attempts: list[Attempt] = []
    masked: dict[int, tuple[Tokenized, Masked]] = {}
    for place in chosen(len(texts), params.share, shard.rng):
        segment, text = shard.segments[place], tokenized[place]
        for copy in range(1, params.copies + 1):
            style = params.styles[int(shard.rng.integers(len(params.styles)))]
            sizes = [len(word) for word in text.words]
            words = draw_words(style, sizes, params.max_masks, params.max_mask_share, shard.rng)
            reason = Reason.UNMASKABLE if not words else None
            if len(text.ids) > filler.positions:
                reason = Reason.TOO_LONG
            if reason is None:
                masked[len(attempts)] = (text, filler.mask(text, words))
            source = (segment.id, segment.text, f"mask{copy}", "mask_fill")
            attempts.append(Attempt(*source, reason=reason, mask_style=style.value))
    found = filler.fill([one for _, one in masked.values()], params.beam_width, params.batch_tokens)
    spelling = usual_spelling(texts) if filler.lower_cases else {}
    for (index, (text, one)), hypotheses in zip(masked.items(), found, strict=True):
        candidate = _best(attempts[index].reference, text, one, hypotheses, filler, spelling)
        attempts[index] = dataclasses.replace(attempts[index], candidate=candidate, masks=len(one.positions))
    return Made(attempts)


def draw_words(
    style: MaskStyle, sizes: Sequence[int], max_masks: int, max_mask_share: float, rng: numpy.random.Generator
) -> list[int]:
    """Indices, ascending, of the words to mask; `sizes` are the words' numbers of pieces.

    The number of words is uniform from 1 to `max_masks`, or to the allowed share of the words if that is less. A word
    that would bring the masks above `max_masks` is left out of a random draw, and ends a span. So nothing is drawn if
    no word fits.
    """
    if not sizes:
        return []
    limit = max(1, min(max_masks, int(max_mask_share * len(sizes))))
    count = int(rng.integers(1, limit + 1))
    if style is MaskStyle.SPAN:
        start = int(rng.integers(0, len(sizes) - count + 1))
        total = numpy.cumsum(sizes[start : start + count])
        return list(range(start, start + int((total <= max_masks).sum())))
    drawn: list[int] = []
    room = max_masks
    for word in rng.permutation(len(sizes)).tolist():
        if sizes[word] <= room and len(drawn) < count:
            drawn.append(word)
            room -= sizes[word]
    return sorted(drawn)


def _best(
    reference: str,
    text: Tokenized,
    masked: Masked,
    hypotheses: Sequence[Sequence[int]],
    filler: MaskFiller,
    spelling: Mapping[str, str],
) -> str:
    """The first of `hypotheses` that gives a text with words other than `reference`; else `reference` itself."""
    places = [position - 1 for position in masked.positions]
    for ids in hypotheses:
        filled = dict(zip(places, filler.pieces(ids), strict=True))
        candidate = splice(reference, text.pieces, filled, spelling)
        if candidate != reference and candidate.strip():
            return candidate
    return reference
