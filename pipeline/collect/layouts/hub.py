"""The hub's table of all years' direct assessments since 2017 (RicardoRei/wmt-da-human-evaluation), or a copy of it.

Columns lp, src, mt, ref, score (the z-score), raw (0-100), year; annotators and domain are not kept. Systems are not
named. The files are fetched with huggingface_hub and read here row by row rather than through the `datasets` package,
whose CSV reader takes translations such as "None" and "NA" for missing ones and does not say which line is wrong.
Rows without a reference or z-score are dropped and counted: nobody can mend them here.
"""

from collections import Counter
from pathlib import Path

from pipeline.collect.corpus import Corpus, Part
from pipeline.collect.layouts.own import text
from pipeline.collect.rating import ADEQUACY, NO_REFERENCE, OTHER_PAIR, Loaded, Rating, chosen
from pipeline.core.errors import InputError
from pipeline.files.fetch import local
from pipeline.files.lines import number
from pipeline.files.tables import Row, read_table, table_files

COLUMNS = ("lp", "src", "mt", "ref", "score", "raw", "year")
OTHER_YEAR = "year not chosen"
NO_SCORE = "no standardised rating"


def load_hub(corpus: Corpus) -> Loaded:
    """Rows of the chosen pairs and years, in the order of files and lines."""
    files = [file for part in corpus.parts for file in table_files(_place(part))]
    loaded = Loaded([], Counter())
    for number_, file in enumerate(files, start=1):
        prefix = f"{number_}/" if len(files) > 1 else ""
        for line, row in read_table(file, COLUMNS):
            reason = _reason_to_drop(row, corpus, file, line)
            if reason is None:
                loaded.ratings.append(_rating(row, f"{prefix}{line}", file, line))
            else:
                loaded.dropped[reason] += 1
    return loaded


def _reason_to_drop(row: Row, corpus: Corpus, file: Path, line: int) -> str | None:
    year = _year(row, file, line)
    if corpus.years and year not in corpus.years:
        return OTHER_YEAR
    if not chosen(text(row["lp"], "lp", file, line), corpus.language_pairs):
        return OTHER_PAIR
    if not text(row["ref"], "ref", file, line):
        return NO_REFERENCE
    return NO_SCORE if row["score"] in (None, "") else None


def _year(row: Row, file: Path, line: int) -> int:
    year = number(row["year"], "year", file, line)
    if not (year.is_integer() and 0 < year < 10_000):
        raise InputError("year is not a year", file=file, line=line, value=row["year"])
    return int(year)


def _rating(row: Row, key: str, file: Path, line: int) -> Rating:
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


def _place(part: Part) -> Path:
    """A local copy where the path exists or is a URL; else the data set of this name, fetched once."""
    if Path(part.path).exists() or part.path.startswith(("http://", "https://", ".", "/", "~")):
        return local(part.path, part.sha256)
    if part.sha256 is not None:
        advice = "is a data set of the hub, which has no SHA-256; give null, and pin it as owner/name@revision"
        raise InputError(advice, file=part.path, value=part.sha256)
    return _from_hub(part.path)


def _from_hub(path: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    name, _, revision = path.partition("@")
    patterns = ["*.csv", "*.parquet"]
    try:
        return Path(snapshot_download(name, repo_type="dataset", revision=revision or None, allow_patterns=patterns))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise InputError(
            f"neither a local path nor to be had from the hub ({type(error).__name__}); give a CSV or Parquet copy of "
            "the data set, or run where the hub can be reached",
            file=path,
        ) from error
