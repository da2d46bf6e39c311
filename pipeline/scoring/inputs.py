"""Segments to score, from parallel text files, tables and standard input, of any length.

Everything is read twice: once to check and count all of it, before a model is loaded or a score written, then again
segment by segment, so that memory does not grow with the input. Standard input and pipes, which can be read only once,
are copied to a temporary file first.

- Text files (see `pipeline.files.lines`): a line for each segment; one or several files of references, one file for
  each system, at most one file of sources.
- Tables (see `pipeline.files.tables`), also on standard input: columns `candidate`, `reference` or `references`, and
  perhaps `source`. All columns are kept in `Segment.fields`.
"""

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.core.errors import InputError
from pipeline.files.lines import STANDARD_INPUT, rereadable, stream_lines
from pipeline.files.tables import REFERENCES, Table, kind, open_table, reference_texts


@dataclass(frozen=True, slots=True)
class Segment:
    """References, at least one, and the candidate of each system; `fields`: all columns of a table's row."""

    references: tuple[str, ...]
    candidates: tuple[str, ...]
    source: str | None
    fields: dict[str, Any] | None = None


@dataclass(frozen=True)
class Segments:
    """Checked segments that can be read again and again.

    `systems`: names of the systems, in the order of `Segment.candidates`. `columns`: all names in `Segment.fields`.
    """

    systems: tuple[str, ...]
    count: int
    read: Callable[[], Iterator[Segment]]
    columns: frozenset[str] = frozenset()

    def __iter__(self) -> Iterator[Segment]:
        """All segments, in order."""
        return self.read()


@contextlib.contextmanager
def text_files(references: Sequence[str], candidates: Sequence[str], source: str | None = None) -> Iterator[Segments]:
    """Parallel text files, each named by its path or "-"; a file of candidates is a system.

    Unequal numbers of lines, no lines, and bytes that are no UTF-8 are InputErrors.
    """
    names = [*references, *candidates, *([] if source is None else [source])]
    for name in names:
        if kind(Path(name)):
            raise InputError("is a table: give it with --input", file=name)
    again = [name for name in candidates if candidates.count(name) > 1]
    again += [name for name in names if name == STANDARD_INPUT][1:]
    if again:
        raise InputError("is given twice", file=again[0])
    with tempfile.TemporaryDirectory(prefix="bleurt-") as folder:
        files = [rereadable(name, Path(folder) / f"{number}.txt") for number, name in enumerate(names)]
        counts = [sum(1 for _ in stream_lines(file, name)) for file, name in zip(files, names, strict=True)]
        for name, count in zip(names, counts, strict=True):
            if count != counts[0]:
                raise InputError(f"has {counts[0]} lines, but {name} has {count}", file=names[0])
        last = len(references) + len(candidates)

        def read() -> Iterator[Segment]:
            columns = [stream_lines(file, name) for file, name in zip(files, names, strict=True)]
            for row in zip(*columns, strict=True):
                yield Segment(
                    row[: len(references)], row[len(references) : last], None if source is None else row[last]
                )

        _refuse_empty(counts[0], names[0])
        yield Segments(tuple(candidates), counts[0], read)


@contextlib.contextmanager
def table(name: str = STANDARD_INPUT) -> Iterator[Segments]:
    """A table, named by its path or "-"; its name is that of its one system.

    Missing columns, malformed rows, cells that are no text, and tables without rows are InputErrors.
    """
    with open_table(name) as opened:
        count, columns = 0, set[str]()
        for segment in _segments(opened):
            count += 1
            columns.update(segment.fields or ())
        _refuse_empty(count, opened.name)
        yield Segments((opened.name,), count, lambda: _segments(opened), frozenset(columns))


def _refuse_empty(count: int, name: str) -> None:
    if count == 0:
        raise InputError("holds no segment", file=name)


def _segments(opened: Table) -> Iterator[Segment]:
    for line, row in opened.rows(("candidate", REFERENCES)):
        references, source = reference_texts(row, opened.name, line), row.get("source")
        if not references:
            raise InputError("has no reference", file=opened.name, line=line)
        for what, cell in (("candidate", row["candidate"]), ("source", "" if source is None else source)):
            if not isinstance(cell, str):
                raise InputError(f"{what} is not text", file=opened.name, line=line, value=cell)
        yield Segment(tuple(references), (row["candidate"],), source, row)
