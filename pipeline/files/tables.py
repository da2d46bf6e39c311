"""Rows of CSV, TSV, JSONL and Parquet files, with their line numbers; the first three may be gzip-compressed.

CSV is quoted as usual and must be well-formed; in TSV a quotation mark is an ordinary character and a field holds no
tab or line feed; one that was quoted as CSV quotes, with doubled quotation marks inside, is refused. Text is UTF-8.
`line` is where a row begins (Parquet: the row's number), counted from 1.
"""

import csv
import gzip
import json
import sys
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import pyarrow
import pyarrow.parquet

from pipeline.core.errors import InputError
from pipeline.files.lines import check_unicode

ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet")
PACKED = (".csv.gz", ".tsv.gz", ".jsonl.gz")
Row = dict[str, Any]


def kind(file: Path) -> str:
    """The one of ENDINGS that `file` holds, packed or not; "" for another file.

    >>> kind(Path("scores.tsv.gz")), kind(Path("notes.txt"))
    ('.tsv', '')
    """
    if file.suffix in ENDINGS:
        return file.suffix
    return next((ending.removesuffix(".gz") for ending in PACKED if file.name.endswith(ending)), "")


def table_files(place: Path) -> list[Path]:
    """`place` itself, or all tables below it, sorted."""
    files = [place] if place.is_file() else sorted(file for file in place.rglob("*") if kind(file))
    if not files or not kind(files[0]):
        raise InputError(f"must be one of {', '.join(ENDINGS + PACKED)}, or a folder of such", file=place)
    return files


def read_table(file: Path, required: Sequence[str]) -> Iterator[tuple[int, Row]]:
    """(line, row) one by one; every row has the `required` columns."""
    try:
        if kind(file) == ".parquet":
            yield from _parquet(file, required)
        else:
            with _open(file) as lines:
                yield from _jsonl(file, lines, required) if kind(file) == ".jsonl" else _csv(file, lines, required)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError("not a whole gzip file", file=file) from error
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", file=file) from error


def _open(file: Path) -> IO[str]:
    opened = gzip.open if file.suffix == ".gz" else open
    return opened(file, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="")


def _require(names: Sequence[str], required: Sequence[str], file: Path, line: int) -> None:
    for name in required:
        if name not in names:
            raise InputError("the column is missing", file=file, line=line, value=name)


def _csv(file: Path, lines: Iterator[str], required: Sequence[str]) -> Iterator[tuple[int, Row]]:
    csv.field_size_limit(sys.maxsize)
    style: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if kind(file) == ".tsv" else {}
    reader = csv.reader(lines, strict=True, **style)
    header: list[str] = []
    line = 1
    try:
        for fields in reader:
            for field in fields:
                check_unicode(field, file, line)
                if kind(file) == ".tsv" and _looks_quoted(field):
                    raise InputError("looks quoted; save it unquoted or as CSV", file=file, line=line, value=field)
            if not header:
                header = fields
                _require(header, required, file, line)
                if twice := [name for name, count in Counter(header).items() if count > 1]:
                    raise InputError("the column stands twice", file=file, line=line, value=twice[0])
            elif fields:
                if len(fields) != len(header):
                    raise InputError(f"has {len(fields)} fields, but the header {len(header)}", file=file, line=line)
                yield line, dict(zip(header, fields, strict=True))
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"not well-formed ({error})", file=file, line=line) from error
    _require(header, required, file, 1)


def _looks_quoted(field: str) -> bool:
    """Quotation marks around, and all those inside doubled; one outside a pair was meant as it stands.

    >>> _looks_quoted('"He said ""no""."'), _looks_quoted('"No," he said, "never."'), _looks_quoted('"No."')
    (True, False, False)
    """
    inside = field[1:-1]
    return field[:1] == field[-1:] == '"' and '""' in inside and '"' not in inside.replace('""', "")


def _jsonl(file: Path, lines: Iterator[str], required: Sequence[str]) -> Iterator[tuple[int, Row]]:
    for line, text in enumerate(lines, start=1):
        check_unicode(text, file, line)
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError("not valid JSON", file=file, line=line, value=text.strip()) from error
        if not isinstance(row, dict):
            raise InputError("must be an object", file=file, line=line, value=row)
        _require(list(row), required, file, line)
        yield line, row


def _parquet(file: Path, required: Sequence[str]) -> Iterator[tuple[int, Row]]:
    row_number = 1
    try:
        opened = pyarrow.parquet.ParquetFile(file)
        _require(opened.schema_arrow.names, required, file, 1)
        for batch in opened.iter_batches(batch_size=4096):
            for row in batch.to_pylist():
                yield row_number, row
                row_number += 1
    except UnicodeDecodeError as error:
        raise InputError("not valid UTF-8 in one of the rows from here on", file=file, line=row_number) from error
    except (pyarrow.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise InputError(f"not a whole Parquet file ({' '.join(str(error).split())[:120]})", file=file) from error
