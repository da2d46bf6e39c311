"""Tables as text, JSON or LaTeX: `--format`, and `--width` for the digits behind the decimal point (as sacrebleu's)."""

import argparse
import enum
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.scoring.cli.arguments import one_of

WIDTH = 4
"""Digits behind the decimal point in tables."""


class Format(enum.StrEnum):
    """How results are written."""

    TEXT = "text"
    JSON = "json"
    LATEX = "latex"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """--format and --width; `width` is None where it is not given."""
    parser.add_argument("--format", type=one_of(Format), default=Format.TEXT, metavar="NAME",
                        help="text (default), json, latex")  # fmt: skip
    parser.add_argument("--width", type=digits, metavar="N", help="digits behind the decimal point")


def as_json(record: object) -> str:
    """One line of JSON; numbers that JSON does not know (NaN, infinities), of a user's own columns, become null."""
    return json.dumps(_without_nan(record), ensure_ascii=False, allow_nan=False, default=str)


def _without_nan(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _without_nan(one) for key, one in value.items()}
    return [_without_nan(one) for one in value] if isinstance(value, list | tuple) else value


def digits(text: str) -> int:
    """A number of digits from the command line, 0 to 17."""
    if not text.isdecimal() or int(text) > 17:
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 to 17, not {text!r}")
    return int(text)


def shown(value: object, width: int | None = None) -> str:
    """A cell: floats with `width` digits behind the point, whole numbers grouped, nothing for None.

    >>> shown(0.12345), shown(0.5, 1), shown(12345), shown("a_b"), shown(None)
    ('0.1235', '0.5', '12,345', 'a_b', '')
    """
    if isinstance(value, float):
        return f"{value:.{WIDTH if width is None else width}f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else str(value)


def table(rows: Sequence[Mapping[str, object]], format: Format, width: int | None = None) -> str:
    """`rows`, whose keys are the columns, as a table; numbers stand on the right. JSON holds them unrounded.

    >>> print(table([{"system": "a.txt", "score": 0.25}, {"system": "b", "score": -1.0}], Format.TEXT, 2))
    system      score
    --------  -------
    a.txt        0.25
    b           -1.00
    """
    if format is Format.JSON:
        return json.dumps(list(rows), ensure_ascii=False, default=str)
    from tabulate import tabulate

    columns = list(rows[0]) if rows else []
    numbers = [all(isinstance(row[column], int | float | None) for row in rows) for column in columns]
    drawn: str = tabulate(
        [[shown(row[column], width) for column in columns] for row in rows],
        headers=columns,
        tablefmt="latex_booktabs" if format is Format.LATEX else "simple",
        colalign=["right" if number else "left" for number in numbers] or None,
        disable_numparse=True,
    )
    return drawn
