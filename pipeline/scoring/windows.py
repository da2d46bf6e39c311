"""Texts longer than the encoder reads, as aligned windows: `--long windows`. The paper has nothing like it.

A pair that does not fit is cut in two, and its parts again, until every part fits. The reference is cut at the sentence
end nearest to its middle, or at the middle word. The candidate is cut at the corresponding word: the longest common
runs of words (difflib) correspond, and places between two runs correspond by proportion. So if a candidate lacks half
of the text, its windows are empty there, and the others are not shifted against the reference.

The pair's score is the mean over its windows, weighted by the words of the longer side, so that missing and invented
text weighs as much as translated text.
"""

import difflib
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

import regex

from pipeline.core.scripts import SPACELESS_CHARACTER

_WORD = regex.compile(rf"{SPACELESS_CHARACTER}|(?:(?!{SPACELESS_CHARACTER})\S)+")
_SENTENCE_END = regex.compile("[.!?…。！？।؟][\"'”’»)\\]]*$")


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
