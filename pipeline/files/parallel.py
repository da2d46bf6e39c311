"""Files of text that several shards share: outputs of systems, and parallel text (sentences and their translations)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Self, TypeVar

import numpy

from pipeline.core.errors import InputError
from pipeline.core.params import params
from pipeline.core.records import Reason
from pipeline.files.fetch import local
from pipeline.files.lines import read_lines

T = TypeVar("T")


@params
class TextSource:
    """A file or folder of texts."""

    name: str
    """Begins the ids of what is read from it."""
    path: str
    """A local path, or a URL."""
    sha256: str | None
    """Checksum of the file; a URL needs it."""

    def file(self) -> Path:
        """Where the file or folder lies on this machine, once fetched."""
        return local(self.path, self.sha256)


def check_sources(sources: Sequence[TextSource], drawn: int = 0) -> None:
    """Raise a ValueError, which params report, if two sources share a name, or `drawn` is not 0 without any source.

    >>> check_sources([], 3)
    Traceback (most recent call last):
    ValueError: pairs: is 3, but there are no sources
    """
    names = [source.name for source in sources]
    if len(set(names)) < len(names):
        raise ValueError(f"sources: two of them are called {max(names, key=names.count)}")
    if drawn and not sources:
        raise ValueError(f"pairs: is {drawn}, but there are no sources")


@dataclass(frozen=True)
class Draw(Generic[T]):
    """Rows drawn from sources, in random order; `lost` counts the rows that were not drawn, by reason."""

    rows: Sequence[T]
    lost: Counter[str]

    @classmethod
    def of(cls, usable: Sequence[T], lost: Counter[str], count: int, rng: numpy.random.Generator) -> Self:
        """Draw `count` of `usable`, or all if there are fewer; `lost` counts the rows that are not usable."""
        order = rng.permutation(len(usable))[:count]
        return cls([usable[i] for i in order], lost + Counter({Reason.NOT_DRAWN.value: len(usable) - len(order)}))

    def part(self, index: int, count: int) -> Self:
        """The part of shard `index` of `count`: every `count`-th row. Only the first part has the counts of `lost`.

        >>> Draw("abcde", Counter()).part(1, 3).rows
        'be'
        """
        return type(self)(self.rows[index::count], self.lost if index == 0 else Counter())


def parallel_sentences(source: TextSource) -> Iterator[tuple[str, str]]:
    """(sentence, its translation) of each line of a text file, gzipped or not, with a tab between the two.

    The sentence is in the metric's language, and either side may be empty. White space becomes single spaces. Empty
    lines and further columns are skipped. Raises an InputError for a line without a tab.
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
