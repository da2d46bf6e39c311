"""Rated candidates that commands measure a metric on: a folder that collect wrote, or a user's own tables.

Own tables are read as the layout `own` reads them and cleaned as `collect` cleans them: character references undone,
and rows with longer texts than `collect.max_words` of params.yaml left out. Rows have the columns of
`pipeline.core.records.RATINGS`.
"""

import dataclasses
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from pipeline.core.errors import InputError
from pipeline.core.params import load_key
from pipeline.scoring.contenders import params_file
from pipeline.scoring.unusual_texts import CharacterReferences

Row = dict[str, Any]

AS_COLLECTED = "as_collected"
"""What happened to the character references of collected rows: what `collect.undo_character_references` says."""


def is_collected(place: Path) -> bool:
    """Whether `place` is a folder of shards, as collect writes it."""
    return place.is_dir() and any(place.glob("part-*.parquet"))


def read_benchmark(
    place: Path, scale: float | None, split: str, character_references: CharacterReferences
) -> list[Row]:
    """All rows of own tables, or those of `split` that collect wrote, each year of a corpus as a corpus of its own."""
    if not is_collected(place):
        return read_own(place, scale, character_references)
    rows = read_collected(place, [split])
    if not rows:
        raise InputError("no row has the split", file=place, value=split)
    years: dict[str, set[int | None]] = {}
    for row in rows:
        years.setdefault(row["corpus"], set()).add(row["year"])
    for row in rows:  # each year is a benchmark of its own, with its own rule for DARR
        if len(years[row["corpus"]]) > 1:
            row["corpus"] = f"{row['corpus']} {row['year']}"
    return rows


def read_collected(place: Path, splits: Collection[str]) -> list[Row]:
    """The rows of `splits`, perhaps none."""
    from pipeline.core.records import RATINGS
    from pipeline.core.shards import read_rows

    return [row for row in read_rows(place, RATINGS) if row["split"] in splits]


def read_own(
    place: Path, scale: float | None, character_references: CharacterReferences = CharacterReferences.UNDONE
) -> list[Row]:
    """The rows of a table, of a folder of tables or of standard input; says on standard error what is left out.

    `scale`: the highest rating, None for standardised ones. All rows have the split "test".
    """
    from pipeline.collect.corpus import Corpus, Part, Split
    from pipeline.collect.gather import cleaned, load
    from pipeline.files.lines import STANDARD_INPUT

    name = place.name.split(".")[0] or "ratings"
    if not place.exists() and str(place) != STANDARD_INPUT:
        raise InputError("no such file or folder", file=place)
    own = Corpus(
        name=name, layout="own", parts=(Part(path=str(place)),), split=Split.TEST,
        language_pairs=("*",), years=(), test_fraction=None, scale=scale,
    )  # fmt: skip
    undo = character_references is CharacterReferences.UNDONE
    loaded = cleaned(load(own), undo, load_key(params_file(), "collect")["max_words"])
    if not loaded.ratings:
        raise InputError("holds no rating", file=place)
    for reason, count in loaded.dropped.items():
        print(f"warning: {place}: {count} rows are left out: {reason}", file=sys.stderr)
    rows = [dataclasses.asdict(rating) for rating in loaded.ratings]
    for row in rows:
        row.update(rating_id=f"{name}/{row.pop('key')}", corpus=name, split="test")
    return rows
