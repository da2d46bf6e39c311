"""Outputs of real systems beside human references, unrated: beyond the paper's three techniques.

Mask-filling and backtranslation imitate the errors of systems; old evaluation campaigns hold the errors themselves
(WMT13: 280,000 translations of 3,000 sentences). No rating is read: the targets are the same automatic signals.
"""

import functools
from collections import Counter
from pathlib import Path
from typing import Self

from pydantic import model_validator

from pipeline.core.errors import InputError
from pipeline.core.params import AtLeastOne, AtLeastZero, params
from pipeline.core.records import Reason
from pipeline.core.scripts import length
from pipeline.core.shards import generator
from pipeline.files.parallel import Draw, TextSource, check_sources
from pipeline.files.tables import read_table, table_files
from pipeline.perturb.pairs import Attempt, Made, Shard


@params
class OutputSource(TextSource):
    """A table, or a folder of tables, with the columns `reference` and `candidate`."""

    where: tuple[tuple[str, str], ...]
    """(column, value): only rows with all of these values are read, such as `[[split, train]]`; [] for all rows."""


@params
class Params:
    """Which outputs are used."""

    sources: tuple[OutputSource, ...]
    pairs: AtLeastZero
    """How many are drawn from all sources together; 0 for none."""
    max_words: AtLeastOne
    """Most words of the reference and of the candidate; longer rows are left out."""

    @model_validator(mode="after")
    def _has_sources(self) -> Self:
        check_sources(self.sources, self.pairs)
        return self


def needs(params: Params) -> tuple[Path, ...]:
    """The files or folders of the sources."""
    return tuple(source.file() for source in params.sources) if params.pairs else ()


def make(shard: Shard, params: Params) -> Made:
    """The shard's part of the pairs drawn."""
    own = drawn(params, shard.seed).part(shard.index, shard.count)
    return Made(own.rows, own.lost)


@functools.lru_cache(maxsize=1)
def drawn(params: Params, seed: int) -> Draw[Attempt]:
    """`params.pairs` pairs in random order, or all if there are fewer.

    A segment's id is `<source>-<number>`, where references are numbered as they first appear. A pair's id is
    `<segment>/output<row>`, with the row's number in the source.
    """
    found: list[Attempt] = []
    lost: Counter[str] = Counter()
    if params.pairs:
        for source in params.sources:
            found += _read(source, params.max_words, lost)
    return Draw.of(found, lost, params.pairs, generator(seed, "perturb", "system_outputs"))


def _read(source: OutputSource, max_words: int, lost: Counter[str]) -> list[Attempt]:
    """All usable rows of one source, each pair once; other rows that it asks for are counted in `lost`."""
    numbers: dict[str, int] = {}
    found: dict[tuple[str, str], Attempt] = {}
    row = 0
    for file in table_files(source.file()):
        for line, columns in read_table(file, ["reference", "candidate", *dict(source.where)]):
            row += 1
            if any(str(columns[name]) != value for name, value in source.where):
                continue
            reference, candidate = (_text(columns[side], side, file, line) for side in ("reference", "candidate"))
            reason = _unusable(reference, candidate, max_words)
            if reason is None and (reference, candidate) in found:
                reason = Reason.DUPLICATE
            if reason is not None:
                lost[reason.value] += 1
                continue
            segment = f"{source.name}-{numbers.setdefault(reference, len(numbers) + 1)}"
            found[reference, candidate] = Attempt(segment, reference, f"output{row}", "system_output", candidate)
    return list(found.values())


def _text(value: object, side: str, file: Path, line: int) -> str:
    """`value` with single spaces; an InputError if it is not text."""
    if not isinstance(value, str):
        raise InputError(f"the {side} is not text", file=file, line=line, value=value)
    return " ".join(value.split())


def _unusable(reference: str, candidate: str, max_words: int) -> Reason | None:
    if not reference or not candidate:
        return Reason.EMPTY_TEXT
    if reference == candidate:
        return Reason.UNCHANGED
    return Reason.WORDS if max(length(reference), length(candidate)) > max_words else None
