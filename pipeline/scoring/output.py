"""What the commands print and write: tables as text, JSON or LaTeX, and files that end up whole or unchanged.

`--format` chooses the form and `--width` the digits after the decimal point, as in sacrebleu.
"""

import argparse
import contextlib
import enum
import json
import math
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from pipeline.core.errors import ParamsError
from pipeline.scoring.inputs import one_of

WIDTH = 4
"""Digits after the decimal point in tables."""


class Format(enum.StrEnum):
    """How results are written."""

    TEXT = "text"
    JSON = "json"
    LATEX = "latex"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """--format and --width; `width` is None if it is not given."""
    parser.add_argument("--format", type=one_of(Format), default=Format.TEXT, metavar="NAME",
                        help="text (default), json, latex")  # fmt: skip
    parser.add_argument("--width", type=digits, metavar="N", help="digits after the decimal point")


def digits(text: str) -> int:
    """A number of digits from the command line, 0 to 17."""
    if not text.isdecimal() or int(text) > 17:
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 to 17, not {text!r}")
    return int(text)


def as_json(record: object) -> str:
    """One line of JSON. A user's columns may hold numbers that JSON does not know (NaN, infinities): these are null."""
    return json.dumps(_without_nan(record), ensure_ascii=False, allow_nan=False, default=str)


def _without_nan(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _without_nan(one) for key, one in value.items()}
    return [_without_nan(one) for one in value] if isinstance(value, list | tuple) else value


def shown(value: object, width: int | None = None) -> str:
    """A cell: floats with `width` digits after the point, whole numbers grouped, nothing for None.

    >>> shown(0.12345), shown(0.5, 1), shown(12345), shown("a_b"), shown(None)
    ('0.1235', '0.5', '12,345', 'a_b', '')
    """
    if isinstance(value, float):
        return f"{value:.{WIDTH if width is None else width}f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else str(value)


def table(rows: Sequence[Mapping[str, object]], format: Format, width: int | None = None) -> str:
    """`rows` as a table whose columns are the rows' keys; numbers stand on the right, and JSON does not round them.

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


def check_destinations(inputs: Sequence[str] = (), **files: Path | None) -> None:
    """Check where results go before anything is scored; each of `files` is named for its flag, without dashes.

    A ParamsError if a file cannot be written, if two are the same, or if one of the `inputs` would be replaced.
    """
    taken: dict[Path, str] = {}
    read = {Path(name).resolve() for name in inputs if Path(name).is_file()}
    for flag, file in files.items():
        if file is None:
            continue
        if file == Path() or file.is_dir():
            raise ParamsError(f"--{flag}: must name a file, not {str(file)!r}.")
        above = next(folder for folder in file.absolute().parents if folder.exists())
        if not above.is_dir():
            raise ParamsError(f"--{flag}: {file} would lie in {above}, which is a file.")
        if file.resolve() in read:
            raise ParamsError(f"--{flag}: {file} is read as input and would be replaced.")
        if file.resolve() in taken:
            raise ParamsError(f"--{flag} and --{taken[file.resolve()]} name the same file, {file}.")
        taken[file.resolve()] = flag


@contextlib.contextmanager
def written(file: Path) -> Iterator[IO[str]]:
    """A text stream to `file`, which appears or is replaced when all is written; its permissions stay.

    If `file` is a symbolic link, the file that it points to is replaced. A device or a pipe is written to directly.
    """
    from pipeline.core.shards import replacing, writing

    mode = file.stat().st_mode if file.exists() else None
    if mode is not None and not stat.S_ISREG(mode):
        with writing(file), file.open("w", encoding="utf-8") as out:
            yield out
        return
    place = file.resolve() if file.is_symlink() else file
    with replacing(place) as temporary:
        with temporary.open("w", encoding="utf-8") as out:
            yield out
        if mode is not None:
            temporary.chmod(stat.S_IMODE(mode))
