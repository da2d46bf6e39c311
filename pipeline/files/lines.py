"""Text files line by line and the numbers in them, with errors that name file, line and value.

Text is UTF-8, with or without a byte order mark, gzip-compressed or not. Only a line feed ends a line, because
Unicode's other separators occur inside translations.
"""

import contextlib
import gzip
import math
import shutil
import sys
import zlib
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import IO

from pipeline.core.errors import InputError

STANDARD_INPUT = "-"


def shown_name(name: str | Path) -> str:
    """What errors call the input `name`.

    >>> shown_name("-"), shown_name(Path("ratings.csv"))
    ('standard input', 'ratings.csv')
    """
    return "standard input" if str(name) == STANDARD_INPUT else str(name)


def rereadable(name: str | Path, copy: Path) -> Path:
    """A file that can be read twice and holds what `name` holds: itself, or `copy` of standard input or of a pipe.

    A file that does not exist is no error here, but opening it is.
    """
    place = Path(name)
    standard_input = str(name) == STANDARD_INPUT
    if not standard_input and (place.is_file() or not place.exists()):
        return place
    with reading(shown_name(name)), contextlib.ExitStack() as stack:
        given = sys.stdin.buffer if standard_input else stack.enter_context(place.open("rb"))
        shutil.copyfileobj(given, stack.enter_context(copy.open("wb")))
    return copy


@contextlib.contextmanager
def reading(name: str | Path) -> Iterator[None]:
    """Inside, an OSError and a damaged gzip stream become InputErrors about `name`."""
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError("not a whole gzip file", file=name) from error
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", file=name) from error


def open_text(file: Path, newline: str) -> IO[str]:
    """`file` as text, unpacked if its name ends in .gz or if its first two bytes are gzip's.

    Bytes that are not UTF-8 become surrogates, which `check_unicode` finds. `newline`: as for `open`.
    """
    packed = file.suffix == ".gz"
    if not packed:
        with file.open("rb") as content:
            packed = content.read(2) == b"\x1f\x8b"
    opened = gzip.open if packed else open
    return opened(file, "rt", encoding="utf-8-sig", errors="surrogateescape", newline=newline)


def stream_lines(file: Path, name: str | Path | None = None) -> Iterator[str]:
    """The lines of `file` one by one, without the line feed and a carriage return before it.

    `name`: what errors call the file, if that is not its path.
    """
    shown = file if name is None else name
    with reading(shown), open_text(file, "\n") as lines:
        for line, text in enumerate(lines, start=1):
            check_unicode(text, shown, line)
            yield text.removesuffix("\n").removesuffix("\r")


def read_lines(file: Path, strip: str | None = None) -> list[str]:
    """All lines of `file` without the characters `strip` at their ends; None means white space."""
    return [line.strip(strip) for line in stream_lines(file)]


def check_unicode(text: str, file: str | Path, line: int) -> None:
    """An InputError if UTF-8 cannot hold `text`: it came from other bytes, or from half of a JSON surrogate pair."""
    if text.isascii():
        return
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        around = text[max(0, error.start - 20) : error.end + 20]
        raise InputError("not valid UTF-8", file=file, line=line, value=around) from None


def check_same_length(file: Path, lines: Sequence[str], other: Path, others: Sequence[str]) -> None:
    """An InputError if two files whose lines belong together differ in their numbers of lines."""
    if len(lines) != len(others):
        raise InputError(f"has {len(lines)} lines, but {other} has {len(others)}", file=file)


def number(value: object, what: str, file: str | Path, line: int) -> float:
    """`value` as a finite number. A number written as text counts; truth values, NaN and infinities do not."""
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
            raise ValueError
        if isinstance(value, str) and "_" in value:  # Python's own digit grouping
            raise ValueError
        found = float(value)
    except (ValueError, OverflowError):
        raise InputError(f"{what} is not a number", file=file, line=line, value=value) from None
    if not math.isfinite(found):
        raise InputError(f"{what} is not finite", file=file, line=line, value=value)
    return found


def whole_number(value: str, what: str, file: str | Path, line: int) -> int:
    """`value`, which holds only decimal digits, as a whole number."""
    if not (value.isascii() and value.isdigit()):
        raise InputError(f"{what} is not a whole number", file=file, line=line, value=value)
    return int(value)


def read_columns(file: Path, header: Sequence[str]) -> list[tuple[int, list[str]]]:
    """(line, fields of the columns `header`) of each row of a file whose columns are separated by blanks.

    The file's first line names its columns, perhaps more than these; empty lines are skipped.
    """
    lines = read_lines(file)
    found = lines[0].split() if lines else []
    for name in header:
        if name not in found:
            raise InputError("the column is missing", file=file, line=1, value=name)
    places = [found.index(name) for name in header]
    rows = []
    for line, text in enumerate(lines[1:], start=2):
        fields = text.split()
        if fields and len(fields) != len(found):
            raise InputError(f"has {len(fields)} fields, but the header {len(found)}", file=file, line=line)
        if fields:
            rows.append((line, [fields[place] for place in places]))
    return rows
