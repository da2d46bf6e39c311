"""A chunk of pairs made ready for the model: cleaned, each distinct pair once, in tokens, cut or in windows.

A candidate with several references is several pairs of texts. An input of any length is read in chunks: only a few of
them are in memory. Batches are made within a chunk, which is large enough for batches with hardly any padding.

Texts longer than the encoder reads become aligned windows with `--long windows`. The paper does not do this. A pair
that does not fit is cut in two, and its parts again, until every part fits. The reference is cut at the sentence end
nearest to its middle, or at the middle word. The candidate is cut at the corresponding word: the longest common runs of
words (difflib) correspond, and places between two runs correspond by proportion. So if a candidate lacks half of the
text, its windows are empty there, and the others are not shifted against the reference.

The pair's score is the mean over its windows, weighted by the words of the longer side, so that missing and invented
text weighs as much as translated text.
"""

import difflib
import enum
import functools
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import regex
from numpy.typing import NDArray

from pipeline.core.errors import InputError
from pipeline.core.scripts import SPACELESS_CHARACTER
from pipeline.files.lines import check_unicode
from pipeline.metric.beside import BY_REFERENCE, Beside
from pipeline.metric.pairs import EncodedPairs, encode_pairs, join
from pipeline.scoring.unusual_texts import UNKNOWN_SHARE, CharacterReferences, Edge, clean, edge, used_references

CHUNK_PAIRS = 20_000
CHUNK_CHARACTERS = 20_000_000

_WORD = regex.compile(rf"{SPACELESS_CHARACTER}|(?:(?!{SPACELESS_CHARACTER})\S)+")
_SENTENCE_END = regex.compile("[.!?…。！？।؟][\"'”’»)\\]]*$")


class Long(enum.StrEnum):
    """What happens to a pair of more tokens than the model reads."""

    CUT = "cut"  # words from the end of the longer side are left out
    WINDOWS = "windows"  # scored in aligned windows, see `windows`


@dataclass(frozen=True, slots=True)
class Pair:
    """A candidate, its references and its source, as they were given; a checkpoint needs those that it reads."""

    references: tuple[str, ...]
    candidate: str
    source: str | None = None


@dataclass(frozen=True)
class Part:
    """A row of tokens, and its weight in the score of its pair of texts."""

    row: int
    weight: int


@dataclass(frozen=True)
class Chunk:
    """n pairs ready to score.

    `encoded`: rows of tokens; only those in `rows` are computed. `sides`: each distinct pair of texts. `texts`: for
    each of these the rows that make up its score. `truncated`: for each of these whether words were left out. `pairs`:
    for each pair its flag, and the numbers of its pairs of texts, one for each reference.
    """

    encoded: EncodedPairs
    rows: NDArray[numpy.int64]
    sides: list[tuple[str, str]]
    texts: list[tuple[Part, ...]]
    truncated: NDArray[numpy.bool_]
    pairs: list[tuple[Edge | None, tuple[int, ...]]]


def pairs_of(
    references: Sequence[str | Sequence[str]] | None, candidates: Sequence[str], sources: Sequence[str] | None = None
) -> list[Pair]:
    """Lists of texts as pairs. An InputError names the list, and the entry, counted from 1, that is not a text.

    Without `references`, pairs have none.

    >>> pairs_of(["a", ["b", "c"]], ["d", "e"])[1]
    Pair(references=('b', 'c'), candidate='e', source=None)
    """
    for name, texts in (("references", references), ("candidates", candidates), ("sources", sources)):
        if isinstance(texts, str):
            raise InputError("must be a list of texts, not one text", file=name, value=texts)
        if texts is not None and len(texts) != len(candidates):
            raise InputError(f"has {len(texts)} entries, but candidates has {len(candidates)}", file=name)
    found = []
    origins = [None] * len(candidates) if sources is None else list(sources)
    given = [()] * len(candidates) if references is None else references
    for place, (mine, candidate) in enumerate(zip(given, candidates, strict=True)):
        several = isinstance(mine, Iterable) and not isinstance(mine, str)
        texts = tuple(_text(text, "references", place) for text in (mine if several else [mine]))
        if not texts and references is not None:
            raise InputError("holds no text", file="references", line=place + 1)
        source = None if sources is None else _text(origins[place], "sources", place)
        found.append(Pair(texts, _text(candidate, "candidates", place), source))
    return found


def _text(value: object, name: str, place: int) -> str:
    if not isinstance(value, str):
        raise InputError("must be text", file=name, line=place + 1, value=value)
    if not value.isascii():
        check_unicode(value, Path(name), place + 1)
    return value


def cut_chunks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    """`pairs` in order, in chunks that end at CHUNK_PAIRS pairs of texts or at CHUNK_CHARACTERS characters."""
    chunk: list[Pair] = []
    texts = characters = 0
    for pair in pairs:
        chunk.append(pair)
        texts += max(1, len(pair.references))
        characters += len(pair.candidate) + sum(map(len, pair.references))
        if texts >= CHUNK_PAIRS or characters >= CHUNK_CHARACTERS:
            yield chunk
            chunk, texts, characters = [], 0, 0
    if chunk:
        yield chunk


def prepare(
    pairs: Sequence[Pair],
    tokenizer: Any,
    max_tokens: int,
    long: Long,
    read: Callable[[str], str] = clean,
    beside: Beside = BY_REFERENCE,
) -> Chunk:
    """`pairs` in tokens for a model that reads `max_tokens`, special tokens included; `read`: text -> what it reads.

    `beside`: which texts are read beside the candidate. A pair without one of them is an InputError.
    """
    seen = functools.partial(clean, character_references=CharacterReferences.KEPT)
    numbers: dict[tuple[str, str], int] = {}
    wanted: list[tuple[Edge | None, tuple[int, ...]]] = []
    for pair in pairs:
        candidate, source = read(pair.candidate), None if pair.source is None else read(pair.source)
        references = used_references(list(map(read, pair.references))) if beside.reads.reference else ()
        first = [beside.text(text, source) for text in (references if pair.references else ()) or (None,)]
        flag = edge(
            used_references(list(map(seen, references))) if references else (),
            seen(candidate),
            None if source is None else seen(source),
        )
        wanted.append((flag, tuple(numbers.setdefault((text, candidate), len(numbers)) for text in first)))
    texts = list(numbers)
    encoded = _encode(tokenizer, texts, max_tokens)
    unknown = _mostly_unknown(encoded, tokenizer.unk_token_id)
    wanted = [(flag or (Edge.UNKNOWN_WORDS if unknown[mine[0]] else None), mine) for flag, mine in wanted]
    if long is Long.CUT or not encoded.truncated:
        rows = numpy.arange(len(texts))
        return Chunk(encoded, rows, texts, [(Part(row, 1),) for row in range(len(texts))], encoded.cut, wanted)
    return _in_windows(tokenizer, texts, encoded, wanted, max_tokens)


def _in_windows(
    tokenizer: Any,
    texts: list[tuple[str, str]],
    encoded: EncodedPairs,
    wanted: list[tuple[Edge | None, tuple[int, ...]]],
    max_tokens: int,
) -> Chunk:
    """The chunk of `texts`: first a row for each of them, then rows for the windows of those that are too long."""

    def fits(reference: str, candidate: str) -> bool:
        return len(tokenizer([reference], [candidate], verbose=False)["input_ids"][0]) <= max_tokens

    found: list[Window] = []
    parts: list[tuple[Part, ...]] = [(Part(row, 1),) for row in range(len(texts))]
    for place in numpy.flatnonzero(encoded.cut).tolist():
        mine = windows(*texts[place], fits)
        first = len(texts) + len(found)
        parts[place] = tuple(Part(first + number, window.weight) for number, window in enumerate(mine))
        found += mine
    inside = [(window.reference, window.candidate) for window in found]
    further = _encode(tokenizer, inside, max_tokens)
    cut = numpy.concatenate([numpy.zeros(len(texts), bool), further.cut])
    truncated = numpy.array([any(cut[part.row] for part in mine) for mine in parts])
    rows = numpy.array(sorted(part.row for mine in parts for part in mine))
    return Chunk(join([encoded, further]), rows, texts, parts, truncated, wanted)


def _encode(tokenizer: Any, texts: Sequence[tuple[str, str]], max_tokens: int) -> EncodedPairs:
    return encode_pairs(tokenizer, [text[0] for text in texts], [text[1] for text in texts], max_tokens)


def _mostly_unknown(encoded: EncodedPairs, unknown_id: int | None) -> NDArray[numpy.bool_]:
    """For each pair, whether most of the candidate's tokens are unknown; False if the model has no segment numbers."""
    if unknown_id is None or not encoded.typed:
        return numpy.zeros(len(encoded), bool)
    before = numpy.concatenate([[0], numpy.cumsum(encoded.ids == unknown_id)])
    first, last = encoded.starts[:-1] + encoded.seconds, encoded.starts[1:]
    words = last - first - 1  # without the separator at the end
    share: NDArray[numpy.bool_] = (before[last] - before[first]) > UNKNOWN_SHARE * words
    return share


@dataclass(frozen=True)
class Window:
    """Parts of a reference and of a candidate that correspond; `weight` is the number of words of the longer one."""

    reference: str
    candidate: str
    weight: int


def windows(reference: str, candidate: str, fits: Callable[[str, str], bool]) -> list[Window]:
    """The pair in windows, in order; each passes `fits`, unless single words are too long.

    If a single word of the reference faces too many words of the candidate, the later ones face an empty reference.

    >>> halves = windows("One two. Three four.", "One two. Three.", lambda r, c: len(r) + len(c) < 30)
    >>> [(window.reference, window.candidate, window.weight) for window in halves]
    [('One two.', 'One two.', 2), ('Three four.', 'Three.', 2)]
    """
    left, right = _Words(reference), _Words(candidate)
    anchors = _anchors(left, right)

    def cut(left_from: int, left_to: int, right_from: int, right_to: int) -> list[Window]:
        part = left.text(left_from, left_to), right.text(right_from, right_to)
        if fits(*part) or max(left_to - left_from, right_to - right_from) < 2:
            return [Window(*part, max(left_to - left_from, right_to - right_from, 1))]
        if left_to - left_from < 2:
            middle, across = left_to, right.cut(right_from, right_to)
        else:
            middle = left.cut(left_from, left_to)
            across = min(max(_across(anchors, middle), right_from), right_to)
        return cut(left_from, middle, right_from, across) + cut(middle, left_to, across, right_to)

    return cut(0, len(left.words), 0, len(right.words))


class _Words:
    """A text's words; in scripts that are written without spaces every character is a word."""

    def __init__(self, whole: str) -> None:
        self._whole = whole
        self._spans = [match.span() for match in _WORD.finditer(whole)]
        self.words = [whole[start:end].casefold() for start, end in self._spans]

    def text(self, first: int, last: int) -> str:
        """Words first to last - 1 as they stand in the text."""
        return self._whole[self._spans[first][0] : self._spans[last - 1][1]] if first < last else ""

    def cut(self, first: int, last: int) -> int:
        """Where to cut words first to last - 1: before the word whose number is returned.

        That is the sentence end nearest to the middle, if one lies in the middle half, else the middle. At least one
        word stays on either side.
        """
        middle, quarter = (first + last) // 2, (last - first) // 4
        ends = [
            place
            for place in range(max(first + 1, middle - quarter), min(last - 1, middle + quarter) + 1)
            if _SENTENCE_END.search(self.words[place - 1])
        ]
        return min(ends, key=lambda place: abs(place - middle), default=middle)


def _anchors(left: _Words, right: _Words) -> list[tuple[int, int]]:
    """Places of both texts that correspond, in order: both ends of common runs of words, and of the texts."""
    blocks = difflib.SequenceMatcher(None, left.words, right.words).get_matching_blocks()
    ends = [(block.a + step, block.b + step) for block in blocks for step in (0, block.size)]
    return [(0, 0), *ends, (len(left.words), len(right.words))]


def _across(anchors: list[tuple[int, int]], place: int) -> int:
    """The candidate's place for `place` of the reference, by proportion between the anchors around it."""
    after = min(bisect_right(anchors, place, key=lambda anchor: anchor[0]), len(anchors) - 1)
    (left, right), (next_left, next_right) = anchors[after - 1], anchors[after]
    if next_left == left:
        return right
    return right + round((place - left) / (next_left - left) * (next_right - right))
