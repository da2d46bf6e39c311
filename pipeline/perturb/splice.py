"""Puts filled word pieces back into a sentence. Everything else stays as it was written, character by character.

The mask filler may be an uncased WordPiece model. If its pieces were decoded, the whole text would lose its capitals
and its spacing. So casing and spaces are decided here, and only at the filled positions:

- a piece that the model restored keeps its original spelling;
- between two pieces there is a space if there was one before, as long as both are of the kind that stood there (a word
  for a word, or the same punctuation mark); else usual English spacing applies;
- if the filler lower-cases, a filled word gets the spelling that it mostly has inside the shard's sentences ("paris"
  -> "Paris");
- a filled word that opens the sentence is capitalised.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pipeline.teachers.mask_filler import Piece

WORD = re.compile(r"[^\W_]+")
CLOSING = frozenset(",.;:!?)]}%’”")
OPENING = frozenset("([{$£€“‘")
TIGHT = frozenset("-–/'")
NEARLY_ALWAYS = 0.9
"""Share of a word's occurrences that must have a spelling for a fill to get it."""

FUNCTION_WORDS = frozenset(("us", "it", "who", "may", "will", "am", "or", "in"))
"""Words that a name or an abbreviation is often spelled like: US, IT, WHO, May. They are never re-cased."""


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
