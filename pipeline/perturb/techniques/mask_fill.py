"""Mask-filling (section 4.1, A.1): words of a segment are masked, and a masked language model fills them in again.

There are two styles. Both mask whole words, with one mask for each word piece and at most `max_masks` in a segment:
random words, whose number is uniform; or one contiguous span, whose length and then whose start is uniform. The masks
are filled by beam search (see `pipeline.teachers.mask_filler`).

Choices that the paper leaves open, or that differ from it:
- the candidate is the best hypothesis that changes the text, since a candidate equal to its reference teaches
  nothing. If no hypothesis changes it, as can happen with a narrow beam, the attempt is dropped as unchanged;
- `max_mask_share` can limit how much of a short sentence is masked (the paper's value, 1, sets no limit);
- words that are not masked keep their spelling.

Filled pieces go back into the sentence; everything else stays as it was written, character by character. The mask
filler may be an uncased WordPiece model. If its pieces were decoded, the whole text would lose its capitals and its
spacing. So casing and spaces are decided here, and only at the filled positions:
- a piece that the model restored keeps its original spelling;
- between two pieces there is a space if there was one before, as long as both are of the kind that stood there (a word
  for a word, or the same punctuation mark); else usual English spacing applies;
- if the filler lower-cases, a filled word gets the spelling that it mostly has inside the shard's sentences ("paris"
  -> "Paris");
- a filled word that opens the sentence is capitalised.
"""

import dataclasses
import enum
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

import numpy
from pydantic import model_validator

from pipeline.core.models import locate
from pipeline.core.params import AtLeastOne, ModelName, Share, params
from pipeline.core.records import Reason
from pipeline.perturb.pairs import Attempt, Made, Shard, chosen
from pipeline.teachers.mask_filler import Masked, MaskFiller, Piece, Tokenized, load_filler

WORD = re.compile(r"[^\W_]+")
CLOSING = frozenset(",.;:!?)]}%’”")
OPENING = frozenset("([{$£€“‘")
TIGHT = frozenset("-–/'")
NEARLY_ALWAYS = 0.9
"""A filled word gets a spelling only if at least this share of the word's occurrences have it."""

FUNCTION_WORDS = frozenset(("us", "it", "who", "may", "will", "am", "or", "in"))
"""Words that are often also names or abbreviations: US, IT, WHO, May. They are never re-cased."""


class Precision(enum.StrEnum):
    """Of the mask filler's linear layers."""

    FLOAT32 = "float32"
    BF16 = "bf16"


class MaskStyle(enum.StrEnum):
    """Masks at random words, or over one contiguous span of words."""

    RANDOM = "random"
    SPAN = "span"


@params
class Params:
    """What is masked, which model fills it, and how wide the search is."""

    model: ModelName
    share: Share
    """Share of the segments, drawn at random."""
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
    """Word pieces in one search, over all hypotheses; changes speed, not results."""
    precision: Precision
    """bf16 is quicker on CPUs with AVX512-BF16, and fills some masks with other pieces."""

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
    filler = load_filler(params.model, params.precision.value)
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


def usual_spelling(texts: Iterable[str]) -> dict[str, str]:
    """Lower-cased word -> the spelling with capitals that it has in nearly all places but the start of a text.

    Words without such a spelling are left out, and so are FUNCTION_WORDS.

    >>> usual_spelling(["In Paris the king rains.", "We like Paris and King Lear."])
    {'paris': 'Paris', 'lear': 'Lear'}
    """
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(WORD.findall(text)[1:])
    totals: Counter[str] = Counter()
    for word, count in counts.items():
        totals[word.lower()] += count
    return {
        word.lower(): word
        for word, count in counts.items()
        if word != word.lower() and word.lower() not in FUNCTION_WORDS and count >= NEARLY_ALWAYS * totals[word.lower()]
    }


def splice(text: str, pieces: Sequence[Piece], filled: Mapping[int, str], spelling: Mapping[str, str]) -> str:
    """`text` with some of its pieces replaced: `filled` gives the new piece by its index in `pieces`.

    `pieces` are all pieces of the text. `spelling` re-cases filled words (see `usual_spelling`); it is empty if the
    filler's pieces are cased.

    >>> pieces = [Piece("the", 0, 3), Piece("cat", 4, 7), Piece("sat", 8, 11), Piece(".", 11, 12)]
    >>> splice("The cat sat.", pieces, {0: "a", 2: "sleep", 3: "##s"}, {})
    'A cat sleeps'
    """
    changed = _changed(pieces, filled)
    words = _spelled([changed.get(i, piece.piece) for i, piece in enumerate(pieces)], set(changed), spelling)
    out, cursor = [], 0
    for i, piece in enumerate(pieces):
        gap = text[cursor : piece.start]  # empty between pieces of one character, which normalisation may split
        if i in changed or i - 1 in changed:
            gap = _gap(i, pieces, changed, gap)
        out += [gap, words[i] if i in changed else text[max(cursor, piece.start) : piece.end]]
        cursor = max(cursor, piece.end)
    return "".join([*out, text[cursor:]])


def _changed(pieces: Sequence[Piece], filled: Mapping[int, str]) -> dict[int, str]:
    """The fills that differ from the original, and those that continue a word whose start differs."""
    changed: dict[int, str] = {}
    for i in sorted(filled):
        if filled[i] != pieces[i].piece or (filled[i].startswith("##") and i - 1 in changed):
            changed[i] = filled[i]
    return changed


def _spelled(pieces: list[str], changed: set[int], spelling: Mapping[str, str]) -> list[str]:
    """The written form of each piece. If all pieces of a word are changed, its first piece holds the cased word."""
    forms = [piece.removeprefix("##") if i in changed else piece for i, piece in enumerate(pieces)]
    opening = next((i for i, piece in enumerate(pieces) if _kind(piece) == "word"), 0)
    for start in sorted(i for i in changed if i == 0 or not pieces[i].startswith("##")):
        end = start + 1
        while end < len(pieces) and pieces[end].startswith("##"):
            end += 1
        if not set(range(start, end)) <= changed:
            continue
        lower = "".join(forms[start:end])
        word = spelling.get(lower, lower)
        forms[start:end] = [word[:1].upper() + word[1:] if start == opening else word, *[""] * (end - start - 1)]
    return forms


def _gap(i: int, pieces: Sequence[Piece], changed: Mapping[int, str], gap: str) -> str:
    """What stands before piece `i` if this piece, or the one before it, was replaced; `gap` stood there before."""
    if i == 0:
        return gap
    old_left, old_right = pieces[i - 1].piece, pieces[i].piece
    left, right = changed.get(i - 1, old_left), changed.get(i, old_right)
    if _kind(left) == _kind(old_left) and _kind(right) == _kind(old_right):
        return gap
    tight = right.startswith("##") or right in CLOSING | TIGHT or left in OPENING | TIGHT
    return "" if tight else " "


def _kind(piece: str) -> str:
    """ "##" for the continuation of a word, "word", or the punctuation mark itself."""
    if piece.startswith("##"):
        return "##"
    return "word" if WORD.match(piece) or piece == "[UNK]" else piece
