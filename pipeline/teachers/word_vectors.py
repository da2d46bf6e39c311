"""Word vectors from a text file in word2vec's format, as YiSi reads them (Lo 2019).

The first line holds the number of words and their width; each other line holds a word and its numbers, separated by
blanks. The file may be gzip-compressed. A word that is not in the file counts as its lower-case form if that is.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy
from numpy.typing import NDArray

from pipeline.core.errors import InputError, ModelError
from pipeline.files.lines import number, stream_lines, whole_number


@dataclass(frozen=True)
class WordVectors:
    """`vectors` (words, width): unit vectors; `places`: word -> its row."""

    places: dict[str, int]
    vectors: NDArray[numpy.float64]

    def of(self, words: Sequence[str]) -> NDArray[numpy.float64]:
        """Vectors of `words`, (words, width); an unknown word has zeros, so that its cosine with everything is 0."""
        found = numpy.zeros((len(words), self.vectors.shape[1]))
        for row, word in enumerate(words):
            place = self.places.get(word, self.places.get(word.lower()))
            if place is not None:
                found[row] = self.vectors[place]
        return found

    def knows(self, word: str) -> bool:
        """Whether `word` as it stands is in the file."""
        return word in self.places


@functools.lru_cache(maxsize=4)
def load_word_vectors(file: Path) -> WordVectors:
    """The vectors in `file`, scaled to unit length; a ModelError if there is no such file, an InputError names a line.

    If a word stands twice, its last line counts, as in YiSi's own program.
    """
    if not file.is_file():
        raise ModelError(f"{file}: no such file of word vectors.")
    lines = stream_lines(file)
    header = next(lines, "").split()
    if len(header) != 2:
        raise InputError("must hold the number of words and their width", file=file, line=1, value=" ".join(header))
    count, width = (whole_number(field, what, file, 1) for field, what in zip(header, ("words", "width"), strict=True))
    places: dict[str, int] = {}
    vectors = numpy.zeros((count, width))
    for line, text in enumerate(lines, start=2):
        word, *fields = text.rstrip(" ").split(" ")
        if line - 2 >= count:
            raise InputError(f"has more lines than the {count} words of its first line", file=file, line=line)
        if len(fields) != width:
            raise InputError(f"has {len(fields)} numbers, but its first line says {width}", file=file, line=line)
        vectors[line - 2] = [number(field, "a number of a vector", file, line) for field in fields]
        places[word] = line - 2
    lengths = numpy.linalg.norm(vectors, axis=1, keepdims=True)
    return WordVectors(places, vectors / numpy.where(lengths > 0, lengths, 1.0))
