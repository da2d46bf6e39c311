"""The hub's table of all years' direct assessments since 2017 (RicardoRei/wmt-da-human-evaluation), or a copy of it.

Columns lp, src, mt, ref, score (the z-score), raw (0-100) and year; annotators and domain are not kept. Systems are not
named. Rows without a reference or a z-score are dropped and counted, because they cannot be repaired here.

A data set of the hub is read with the library `datasets`, all of its splits; a line number is that of a row. In its CSV
files only an empty cell counts as missing, because a translation may be "None" or "NA". A local copy is read as any
other table, so that errors name its file and line.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.collect.corpus import (
    ADEQUACY,
    NO_REFERENCE,
    OTHER_PAIR,
    Corpus,
    Layout,
    Loaded,
    Part,
    Rating,
    is_chosen,
)
from pipeline.core.errors import InputError
from pipeline.files.fetch import local
from pipeline.files.lines import number
from pipeline.files.tables import Row, read_table, require_columns, table_files, text

if TYPE_CHECKING:
    import datasets

LAYOUT = Layout(years=True)

COLUMNS = ("lp", "src", "mt", "ref", "score", "raw", "year")
OTHER_YEAR = "year not chosen"
NO_SCORE = "no standardised rating"
BATCH_ROWS = 4096
CSV = {"keep_default_na": False, "na_values": [""], "float_precision": "round_trip"}

Rows = Iterator[tuple[int, Row]]


def load(corpus: Corpus) -> Loaded:
    """Ratings of the chosen pairs and years, in the order of tables and lines."""
    tables = [table for part in corpus.parts for table in _tables(part)]
    loaded = Loaded([], Counter())
    for number_, (name, rows) in enumerate(tables, start=1):
        prefix = f"{number_}/" if len(tables) > 1 else ""
        for line, row in rows:
            reason = _reason_to_drop(row, corpus, name, line)
            if reason is None:
                loaded.ratings.append(_rating(row, f"{prefix}{line}", name, line))
            else:
                loaded.dropped[reason] += 1
    return loaded


def _reason_to_drop(row: Row, corpus: Corpus, file: str, line: int) -> str | None:
    year = _year(row, file, line)
    if corpus.years and year not in corpus.years:
        return OTHER_YEAR
    if not is_chosen(text(row["lp"], "lp", file, line), corpus.language_pairs):
        return OTHER_PAIR
    if not text(row["ref"], "ref", file, line):
        return NO_REFERENCE
    return NO_SCORE if row["score"] in (None, "") else None


def _year(row: Row, file: str, line: int) -> int:
    year = number(row["year"], "year", file, line)
    if not (year.is_integer() and 0 < year < 10_000):
        raise InputError("year is not a year", file=file, line=line, value=row["year"])
    return int(year)


def _rating(row: Row, key: str, file: str, line: int) -> Rating:
    z = number(row["score"], "score", file, line)
    return Rating(
        key=key,
        aspect=ADEQUACY,
        reference=text(row["ref"], "ref", file, line),
        other_references=(),
        candidate=text(row["mt"], "mt", file, line),
        source=text(row["src"], "src", file, line) or None,
        language_pair=text(row["lp"], "lp", file, line) or None,
        system=None,
        segment=None,
        year=_year(row, file, line),
        raw=None if row["raw"] in (None, "") else number(row["raw"], "raw", file, line),
        z=z,
        score=z,
    )


def _tables(part: Part) -> list[tuple[str, Rows]]:
    """Name and rows of each table: of a local copy if the path exists or is a URL, else of the hub's data set."""
    if Path(part.path).exists() or part.path.startswith(("http://", "https://", ".", "/", "~")):
        files = table_files(local(part.path, part.sha256))
        return [(str(file), read_table(file, COLUMNS)) for file in files]
    if part.sha256 is not None:
        advice = "is a data set of the hub, which has no SHA-256; give null, and pin it as owner/name@revision"
        raise InputError(advice, file=part.path, value=part.sha256)
    return _from_hub(part.path)


def _from_hub(path: str) -> list[tuple[str, Rows]]:
    import datasets
    from datasets.packaged_modules.csv.csv import CsvConfig

    from pipeline.core import hub

    name, _, revision = path.partition("@")

    def fetch() -> "datasets.DatasetDict":
        builder = datasets.load_dataset_builder(name, revision=revision or None)
        options = CSV if isinstance(builder.config, CsvConfig) else {}
        return datasets.load_dataset(name, revision=revision or None, **options)

    try:
        found = hub.patiently(fetch)
    except datasets.exceptions.DatasetNotFoundError as error:
        if "is a gated dataset" in str(error):
            raise InputError(f"{hub.GATED}; {hub.LOGIN}", file=path) from error
        raise InputError("is neither a local path nor a data set or revision of the hub", file=path) from error
    except (*hub.FAILURES, datasets.exceptions.DatasetsError) as error:
        raise InputError(
            f"neither a local path nor available from the hub ({type(error).__name__}); give a CSV or Parquet copy of "
            "the data set, or run where the hub can be reached",
            file=path,
        ) from error
    return [(f"{path}, split {split}", _rows(table, f"{path}, split {split}")) for split, table in found.items()]


def _rows(table: "datasets.Dataset", name: str) -> Rows:
    require_columns(table.column_names, COLUMNS, name, 1)
    line = 0
    for batch in table.select_columns(list(COLUMNS)).iter(BATCH_ROWS):
        for cells in zip(*(batch[column] for column in COLUMNS), strict=True):
            line += 1
            yield line, dict(zip(COLUMNS, cells, strict=True))
