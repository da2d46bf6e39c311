"""Rows of CSV, TSV, JSONL and Parquet files with their line numbers: the one reader of tables.

CSV is quoted as usual and must be well-formed. In TSV a quotation mark is an ordinary character and a field holds no
tab or line feed; a field that was quoted as CSV quotes, with doubled quotation marks inside, is refused. Text is UTF-8,
with or without a byte order mark; `.csv`, `.tsv` and `.jsonl` may be gzip-compressed (`.gz`). A line number says where
a row begins (Parquet: the row's number), counted from 1. Rows come one by one, so memory does not grow with the file.

A file of another name is read by its first bytes: Parquet, JSONL if it begins with a brace, else TSV. Standard input
("-") and pipes are copied to a temporary file first. TSV on standard input needs no header: if its first line does not
name the columns `candidate` and `reference` or `references`, there are two, reference and candidate.
"""

import contextlib
import csv
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.core.errors import InputError
from pipeline.files.lines import STANDARD_INPUT, check_unicode, open_text, reading, rereadable, shown_name, stream_lines

ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet")
PACKED = (".csv.gz", ".tsv.gz", ".jsonl.gz")
REFERENCES = ("reference", "references")
"""Columns of references; a row has one of them or both."""

Row = dict[str, Any]
Column = str | tuple[str, ...]
"""A column that must be there, or several columns, one of which must be there."""


@dataclass(frozen=True)
class Table:
    """A table that can be read again and again.

    `name`: what errors call it. `kind`: one of ENDINGS. `bare`: it has two columns, reference and candidate, and no
    header.
    """

    name: str
    file: Path
    kind: str
    bare: bool = False

    def rows(self, required: Sequence[Column]) -> Iterator[tuple[int, Row]]:
        """(line, row) one by one; every row has the `required` columns."""
        if self.kind == ".parquet":
            yield from _parquet(self, required)
        elif self.bare:
            yield from _bare(self, required)
        else:
            with reading(self.name), open_text(self.file, "") as lines:
                yield from _jsonl(self, lines, required) if self.kind == ".jsonl" else _csv(self, lines, required)


def kind(file: Path) -> str:
    """The one of ENDINGS that the name of `file` says, packed or not; "" if it says none.

    >>> kind(Path("scores.tsv.gz")), kind(Path("notes.txt"))
    ('.tsv', '')
    """
    if file.suffix in ENDINGS:
        return file.suffix
    return next((ending.removesuffix(".gz") for ending in PACKED if file.name.endswith(ending)), "")


def table_files(place: Path) -> list[Path]:
    """`place` itself, or all tables in the folder `place`, sorted; a file that holds no table is an InputError."""
    files = sorted(file for file in place.rglob("*") if kind(file)) if place.is_dir() else [place]
    if not files or (place.is_file() and not _kind_of(place, str(place))):
        raise InputError(f"must be one of {', '.join(ENDINGS + PACKED)}, or a folder of these", file=place)
    return files


@contextlib.contextmanager
def open_table(place: str | Path) -> Iterator[Table]:
    """The table at `place`: a file of any name, a pipe, or "-" for standard input."""
    name = shown_name(place)
    with tempfile.TemporaryDirectory(prefix="bleurt-") as folder:
        file = rereadable(place, Path(folder) / "given")
        found = _kind_of(file, name) or ".tsv"
        bare = str(place) == STANDARD_INPUT and found == ".tsv" and not _names_columns(file, name)
        yield Table(name, file, found, bare)


def read_table(place: str | Path, required: Sequence[Column]) -> Iterator[tuple[int, Row]]:
    """(line, row) of the table at `place`, one by one; every row has the `required` columns."""
    with open_table(place) as table:
        yield from table.rows(required)


def require_columns(names: Sequence[str], required: Sequence[Column], file: str, line: int) -> None:
    """An InputError if one of the `required` columns is not among `names`."""
    for column in required:
        choices = (column,) if isinstance(column, str) else column
        if not any(name in names for name in choices):
            raise InputError("the column is missing", file=file, line=line, value=choices[0])


def text(value: object, what: str, file: str | Path, line: int) -> str:
    """A cell as text without surrounding white space; null is empty."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InputError(f"{what} is not text", file=file, line=line, value=value)
    return value.strip()


def reference_texts(row: Row, file: str | Path, line: int) -> list[str]:
    """The texts of the columns REFERENCES, as they stand: each column holds a text, or a list of texts.

    In CSV and TSV `references` holds a list as JSON. A null counts as an absent column.

    >>> reference_texts({"reference": "a", "references": '["b", "c"]'}, "a.csv", 2)
    ['a', 'b', 'c']
    """
    texts = []
    for column, cell in (("reference", row.get("reference")), ("references", _listed(row.get("references")))):
        if column == "references" and not isinstance(cell, str | list | None):
            raise InputError("references is not a list of texts", file=file, line=line, value=cell)
        for one in cell if isinstance(cell, list) else [] if cell is None else [cell]:
            if not isinstance(one, str):
                raise InputError(f"{column} is not text", file=file, line=line, value=one)
            texts.append(one)
    return texts


def _listed(cell: object) -> object:
    if isinstance(cell, str) and cell.startswith("["):
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(cell)
    return cell


def _kind_of(file: Path, name: str) -> str:
    """The one of ENDINGS that the name of `file` says, else what its first bytes show; "" if neither says one."""
    if kind(file):
        return kind(file)
    with reading(name):
        with file.open("rb") as content:
            if content.read(4) == b"PAR1":
                return ".parquet"
        with open_text(file, "") as lines:
            first = next((line for line in lines if line.strip()), "")
    if first.lstrip().startswith("{") and not _is_pair(first):
        return ".jsonl"
    return ".tsv" if "\t" in first else ""


def _is_pair(line: str) -> bool:
    """Is a line that begins with a brace no JSON, but a reference and a candidate?"""
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return line.count("\t") == 1
    return False


def _names_columns(file: Path, name: str) -> bool:
    with reading(name), open_text(file, "") as lines:
        columns = next(lines, "").rstrip("\r\n").split("\t")
    return "candidate" in columns and any(column in columns for column in REFERENCES)


def _bare(table: Table, required: Sequence[Column]) -> Iterator[tuple[int, Row]]:
    require_columns(("reference", "candidate"), required, table.name, 1)
    for line, content in enumerate(stream_lines(table.file, table.name), start=1):
        fields = content.split("\t")
        if len(fields) != 2:
            problem = f"has {len(fields)} fields, but must have two, reference and candidate"
            raise InputError(problem, file=table.name, line=line)
        yield line, {"reference": fields[0], "candidate": fields[1]}


def _csv(table: Table, lines: Iterator[str], required: Sequence[Column]) -> Iterator[tuple[int, Row]]:
    csv.field_size_limit(sys.maxsize)
    tabs, name = table.kind == ".tsv", table.name
    style: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if tabs else {}
    reader = csv.reader(lines, strict=True, **style)
    header: list[str] = []
    line = 1
    try:
        for fields in reader:
            for field in fields:
                check_unicode(field, name, line)
                if tabs and _looks_quoted(field):
                    raise InputError("looks quoted; save it unquoted or as CSV", file=name, line=line, value=field)
            if not header:
                header = fields
                require_columns(header, required, name, line)
                if twice := [column for column, count in Counter(header).items() if count > 1]:
                    raise InputError("the column occurs twice", file=name, line=line, value=twice[0])
            elif fields:
                if len(fields) != len(header):
                    raise InputError(f"has {len(fields)} fields, but the header {len(header)}", file=name, line=line)
                yield line, dict(zip(header, fields, strict=True))
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"not well-formed ({error})", file=name, line=line) from error
    require_columns(header, required, name, 1)


def _looks_quoted(field: str) -> bool:
    """Does `field` stand in quotation marks, and are all those inside it doubled?

    >>> _looks_quoted('"He said ""no""."'), _looks_quoted('"No," he said, "never."'), _looks_quoted('"No."')
    (True, False, False)
    """
    inside = field[1:-1]
    return field[:1] == field[-1:] == '"' and '""' in inside and '"' not in inside.replace('""', "")


def _jsonl(table: Table, lines: Iterator[str], required: Sequence[Column]) -> Iterator[tuple[int, Row]]:
    for line, content in enumerate(lines, start=1):
        check_unicode(content, table.name, line)
        if not content.strip():
            continue
        try:
            row = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise InputError("not valid JSON", file=table.name, line=line, value=content.strip()) from error
        if not isinstance(row, dict):
            raise InputError("must be an object", file=table.name, line=line, value=row)
        require_columns(list(row), required, table.name, line)
        if "\\u" in content:
            _check_escapes(row, table.name, line)
        yield line, row


def _check_escapes(row: Row, name: str, line: int) -> None:
    """An InputError if a cell or a column's name holds half of a surrogate pair, which JSON can write as an escape."""
    for value in (*row, *row.values()):
        check_unicode(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), name, line)


def _parquet(table: Table, required: Sequence[Column]) -> Iterator[tuple[int, Row]]:
    import pyarrow
    import pyarrow.parquet

    line, name = 1, table.name
    try:
        opened = pyarrow.parquet.ParquetFile(table.file)
        require_columns(opened.schema_arrow.names, required, name, 1)
        for batch in opened.iter_batches(batch_size=4096):
            for row in batch.to_pylist():
                yield line, row
                line += 1
    except UnicodeDecodeError as error:
        raise InputError("not valid UTF-8 in one of the rows from here on", file=name, line=line) from error
    except (pyarrow.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise InputError(f"cannot be read ({error.strerror})", file=name) from error
        raise InputError(f"not a whole Parquet file ({' '.join(str(error).split())[:120]})", file=name) from error
