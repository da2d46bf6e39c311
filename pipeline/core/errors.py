"""What goes wrong through input, settings or surroundings: one clear sentence each, never a traceback.

`raise` these for the user's mistakes; use `assert` for our own invariants. Stages and the command line print the
message and exit with code 2 (see `pipeline.core.runtime.run_main`).
"""

from pathlib import Path
from typing import Any


class BleurtError(Exception):
    """Root of the project's errors; its message is a sentence that a user can act on."""


class ParamsError(BleurtError):
    """A key of params.yaml is unknown, missing, ill-typed or out of range."""


class ModelError(BleurtError):
    """A model folder or hub name cannot be used."""


class StorageError(BleurtError):
    """A file could not be written, for example because the disk is full."""


class InputError(BleurtError):
    """A file holds something that it must not hold.

    `line` counts from 1. The message reads `ratings.csv, line 7: score is not a number: 'abc'.`

    >>> print(InputError("score is not a number", file="ratings.csv", line=7, value="abc"))
    ratings.csv, line 7: score is not a number: 'abc'.
    """

    def __init__(self, problem: str, *, file: str | Path, line: int | None = None, value: object = None) -> None:
        place = f"{file}" if line is None else f"{file}, line {line}"
        shown = "" if value is None else f": {_shorten(value)}"
        super().__init__(f"{place}: {problem}{shown}.")

    def __reduce__(self) -> tuple[Any, ...]:
        """Travels from worker processes as its finished message; the default would call `__init__` without a file."""
        return Exception.__new__, (type(self), *self.args)


def _shorten(value: object, limit: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"
