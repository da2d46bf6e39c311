"""Files of text from elsewhere: outputs of systems, and parallel text."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Self, TypeVar

import numpy

from pipeline.core.errors import InputError, ParamsError
from pipeline.core.records import Reason
from pipeline.files.fetch import local
from pipeline.files.lines import read_lines

T = TypeVar("T")


@dataclass(frozen=True)
class TextSource:
    """A file or folder, or a URL with its checksum; `name` begins the ids of what is read from it."""

    name: str
    path: str
    sha256: str | None

    def file(self) -> Path:
        """Where it lies, once fetched."""
        return local(self.path, self.sha256)


def hold_distinct(key: str, sources: Sequence[TextSource]) -> None:
    """Raise a ParamsError that names `key` if two sources have the same name."""
    names = [source.name for source in sources]
    if len(set(names)) < len(names):
        raise ParamsError(f"{key}: two of them are called {max(names, key=names.count)}.")


@dataclass(frozen=True)
class Draw(Generic[T]):
    """What was drawn from sources, in random order, and how many of their rows were not, by reason (law 6)."""

    rows: Sequence[T]
    lost: Counter[str]

    @classmethod
    def of(cls, usable: Sequence[T], lost: Counter[str], count: int, rng: numpy.random.Generator) -> Self:
        """`count` of `usable`, or all where there are fewer; the others are lost too."""
        order = rng.permutation(len(usable))[:count]
        return cls([usable[i] for i in order], lost + Counter({Reason.NOT_DRAWN.value: len(usable) - len(order)}))


def parallel_sentences(source: TextSource) -> Iterator[tuple[str, str]]:
    """(sentence, its translation) of each line of a text file, gzipped or not, with a tab between the two.

    The sentence is of the metric's language. White space is made single, empty lines are passed over, and further
    columns are not read; either side may be empty.
    """
    file = source.file()
    for number, line in enumerate(read_lines(file, strip="\r"), start=1):
        if not line.strip():
            continue
        columns = line.split("\t")
        if len(columns) < 2:
            raise InputError("needs two columns with a tab between them", file=file, line=number, value=line)
        text, foreign = (" ".join(column.split()) for column in columns[:2])
        yield text, foreign
