"""Segments to score, from parallel text files, tables and standard input, of any length.

Everything is read twice: once whole to check and count it, before a model is loaded or a score written, then again
segment by segment, so that memory does not grow with the input. What can be read once alone, standard input or a pipe,
is copied to a temporary file first. Text is UTF-8, with or without a byte order mark, gzip-compressed where the name
ends in .gz; a line feed ends a line, with or without a carriage return before it.

- Text files: a line for each segment; one or several files of references, one for each system, at most one of sources.
- Tables (CSV, TSV, JSONL, Parquet, see `pipeline.files.tables`): columns `candidate`, `reference` (a text, or in
  JSONL and Parquet a list) or `references` (a list; in CSV and TSV a JSON list), and perhaps `source`. All columns are
  kept in `Segment.fields`.
- Standard input: a table too. JSONL where it begins with a brace; else TSV, whose first line names the columns if
  `candidate` and `reference` or `references` are among them; without such a line it has two, reference and candidate.
"""

import contextlib
import gzip
import json
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.core.errors import BleurtError, InputError
from pipeline.files.lines import check_unicode

STANDARD_INPUT = "-"
TABLE_ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet", ".csv.gz", ".tsv.gz", ".jsonl.gz")


@dataclass(frozen=True, slots=True)
class Segment:
    """References, at least one, and the candidate of each system; `fields`: all columns of a table's row."""

    references: tuple[str, ...]
    candidates: tuple[str, ...]
    source: str | None
    fields: dict[str, Any] | None = None


@dataclass(frozen=True)
class Segments:
    """Checked segments that can be read again and again; `systems` are the names behind `Segment.candidates`.

    `columns`: all names in `Segment.fields`.
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
        if name.endswith(TABLE_ENDINGS):
            raise InputError("is a table: give it with --input", file=name)
    again = [name for name in candidates if candidates.count(name) > 1]
    again += [name for name in names if name == STANDARD_INPUT][1:]
    if again:
        raise InputError("is given twice", file=again[0])
    with tempfile.TemporaryDirectory(prefix="bleurt-") as folder:
        files = [_rereadable(name, Path(folder) / f"{number}.txt") for number, name in enumerate(names)]
        counts = [sum(1 for _ in text_lines(file, name)) for file, name in zip(files, names, strict=True)]
        for name, count in zip(names, counts, strict=True):
            if count != counts[0]:
                raise InputError(f"has {counts[0]} lines, but {name} has {count}", file=names[0])
        last = len(references) + len(candidates)

        def read() -> Iterator[Segment]:
            columns = [text_lines(file, name) for file, name in zip(files, names, strict=True)]
            for row in zip(*columns, strict=True):
                yield Segment(
                    row[: len(references)], row[len(references) : last], None if source is None else row[last]
                )

        yield _counted(tuple(candidates), counts[0], read, names[0])


@contextlib.contextmanager
def table(name: str = STANDARD_INPUT) -> Iterator[Segments]:
    """A table, named by its path or "-"; the one system is called as the table.

    Missing columns, malformed rows, cells that are no text, and tables without rows are InputErrors.
    """
    shown = "standard input" if name == STANDARD_INPUT else name
    with tempfile.TemporaryDirectory(prefix="bleurt-") as folder:
        file = _rereadable(name, Path(folder) / "given")
        if not file.name.endswith(TABLE_ENDINGS):
            named = Path(folder) / f"table{_ending(file, shown)}"
            named.symlink_to(file.resolve())
            file = named
        bare = name == STANDARD_INPUT and file.suffix == ".tsv" and not _names_columns(file, shown)

        def read() -> Iterator[Segment]:
            return _bare_tsv(file, shown) if bare else _table_rows(file, shown)

        count, columns = 0, set[str]()
        for segment in read():
            count += 1
            columns.update(segment.fields or ())
        yield _counted((shown,), count, read, shown, frozenset(columns))


def _counted(
    systems: tuple[str, ...],
    count: int,
    read: Callable[[], Iterator[Segment]],
    name: str,
    columns: frozenset[str] = frozenset(),
) -> Segments:
    if count == 0:
        raise InputError("holds no segment", file=name)
    return Segments(systems, count, read, columns)


@contextlib.contextmanager
def _reading(name: str) -> Iterator[None]:
    """Inside, an OSError means that the input called `name` cannot be read."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", file=name) from error


def _rereadable(name: str, copy: Path) -> Path:
    """The file `name`, or its content in `copy` where that can be read once alone."""
    if name != STANDARD_INPUT and (Path(name).is_file() or not Path(name).exists()):
        return Path(name)
    with _reading(name), contextlib.ExitStack() as stack:
        given = sys.stdin.buffer if name == STANDARD_INPUT else stack.enter_context(Path(name).open("rb"))
        shutil.copyfileobj(given, stack.enter_context(copy.open("wb")))
    return copy


def _ending(file: Path, name: str) -> str:
    """What the table holds, by its first bytes."""
    with _reading(name), file.open("rb") as content:
        start = content.read(64)
    if start.startswith(b"PAR1"):
        return ".parquet"
    braced = start.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")
    return ".jsonl" if braced and not _is_pair(next(text_lines(file, name), "")) else ".tsv"


def _is_pair(line: str) -> bool:
    """Whether a line that begins with a brace is a reference and a candidate all the same, and no JSON."""
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return line.count("\t") == 1
    return False


def text_lines(file: Path, name: str) -> Iterator[str]:
    """The lines of `file`, called `name` in errors, without their line feeds."""
    opened, shown = gzip.open if file.suffix == ".gz" else open, Path(name)
    with _reading(name):
        try:
            with opened(file, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="\n") as lines:
                for number, line in enumerate(lines, start=1):
                    check_unicode(line, shown, number)
                    yield line.removesuffix("\n").removesuffix("\r")
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise InputError("not a whole gzip file", file=name) from error


def _names_columns(file: Path, name: str) -> bool:
    columns = next(text_lines(file, name), "").split("\t")
    return "candidate" in columns and ("reference" in columns or "references" in columns)


def _bare_tsv(file: Path, name: str) -> Iterator[Segment]:
    for number, line in enumerate(text_lines(file, name), start=1):
        fields = line.split("\t")
        if len(fields) != 2:
            raise InputError(
                f"has {len(fields)} fields, but must have two, reference and candidate", file=name, line=number
            )
        yield Segment((fields[0],), (fields[1],), None, {"reference": fields[0], "candidate": fields[1]})


def _table_rows(file: Path, name: str) -> Iterator[Segment]:
    from pipeline.files.tables import read_table

    rows = read_table(file, ("candidate",))
    while True:
        try:
            line, row = next(rows)
        except StopIteration:
            return
        except InputError as error:
            raise BleurtError(str(error).replace(str(file), name)) from None
        source = row.get("source")
        _check_cells(row, name, line)
        yield Segment(
            _row_references(row, name, line),
            (_text(row["candidate"], "candidate", name, line),),
            None if source is None else _text(source, "source", name, line),
            row,
        )


def _check_cells(row: dict[str, Any], name: str, line: int) -> None:
    """No cell, nor column's name, may hold half of a surrogate pair, which JSON can spell and no output can hold."""
    for value in (*row, *row.values()):
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        if not text.isascii():
            check_unicode(text, Path(name), line)


def _row_references(row: dict[str, Any], name: str, line: int) -> tuple[str, ...]:
    """`reference` and `references` of a row, each a text or a list of texts, at least one text in all."""
    columns = {"reference": row.get("reference"), "references": _listed(row.get("references"))}
    given = [value for value in columns.values() if value is not None]
    if "reference" not in row and "references" not in row:
        raise InputError("the column is missing", file=name, line=line, value="reference")
    lists = [value if isinstance(value, list) else [value] for value in given]
    texts = tuple(_text(text, "reference", name, line) for mine in lists for text in mine)
    if not texts:
        raise InputError("has no reference", file=name, line=line)
    return texts


def _listed(value: object) -> object:
    """The cell of `references`: in CSV and TSV a list of JSON."""
    if isinstance(value, str) and value.startswith("["):
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(value)
    return value


def _text(value: object, what: str, name: str, line: int) -> str:
    if not isinstance(value, str):
        raise InputError(f"{what} is not text", file=name, line=line, value=value)
    if not value.isascii():
        check_unicode(value, Path(name), line)
    return value
