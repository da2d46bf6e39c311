"""Line-by-line text files and numbers in them, with errors that name file, line and value."""

import gzip
import math
import zlib
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

from pipeline.core.errors import InputError


def read_lines(file: Path, strip: str | None = None) -> list[str]:
    """The lines of a UTF-8 file, gzipped or not, without surrounding white space; an empty last line does not count.

    `strip`: the characters that are taken off a line's ends instead. Only a line feed ends a line: Unicode's other
    separators occur inside translations.
    """
    try:
        raw = file.read_bytes()
        unpacked = gzip.decompress(raw) if file.suffix == ".gz" else raw
        text = unpacked.decode("utf-8", errors="surrogateescape").removeprefix("\ufeff")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError("not a whole gzip file", file=file) from error
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", file=file) from error
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, start=1):
        check_unicode(line, file, number)
    return [line.strip(strip) for line in lines]


def check_unicode(text: str, file: Path, line: int) -> None:
    """Text that UTF-8 cannot hold came from bytes that were no UTF-8 (or from half of a JSON surrogate pair)."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        around = text[max(0, error.start - 20) : error.end + 20]
        raise InputError("not valid UTF-8", file=file, line=line, value=around) from None


def check_same_length(file: Path, lines: Sequence[str], other: Path, others: Sequence[str]) -> None:
    """Files whose lines belong together must have equally many."""
    if len(lines) != len(others):
        raise InputError(f"has {len(lines)} lines, but {other} has {len(others)}", file=file)


def number(value: object, what: str, file: Path, line: int) -> float:
    """`value` as a finite number; numbers in text count, truth values, NaN and infinities do not."""
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


def whole_number(value: str, what: str, file: Path, line: int) -> int:
    """`value`, decimal digits alone, as a whole number."""
    if not (value.isascii() and value.isdigit()):
        raise InputError(f"{what} is not a whole number", file=file, line=line, value=value)
    return int(value)


def read_columns(file: Path, header: Sequence[str]) -> list[tuple[int, list[str]]]:
    """(line number, fields) of a file whose columns are separated by spaces and whose first line is `header`."""
    lines = read_lines(file)
    found = lines[0].split() if lines else []
    for name in header:
        if name not in found:
            raise InputError("the column is missing", file=file, line=1, value=name)
    places = [found.index(name) for name in header]
    rows = []
    for number_, line in enumerate(lines[1:], start=2):
        fields = line.split()
        if fields and len(fields) != len(found):
            raise InputError(f"has {len(fields)} fields, but the header {len(found)}", file=file, line=number_)
        if fields:
            rows.append((number_, [fields[place] for place in places]))
    return rows
