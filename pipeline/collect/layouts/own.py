"""One's own ratings: CSV, TSV, JSONL or Parquet.

Columns `reference`, `candidate` and `score`, and where known `source`, `system`, `segment`, `language_pair` and
`references` (a list of further references; in CSV and TSV a JSON list; it may stand instead of `reference`). Other
columns are ignored. Rows of equal `segment` and reference are rated against each other, whatever file they stand in
(there may be a file for each system); equal numbers of different references are different segments.

With `scale: 100` a `score` is a raw rating from 0 to 100, and the training target is score / 100: a constant that does
not move when rows are added or re-split, as a standardisation over the corpus would. With `scale: null` it is a
standardised rating and the target itself, as WMT's are: only such ratings train beside WMT's.
"""

import json
from collections import Counter
from pathlib import Path

from pipeline.collect.corpus import Corpus
from pipeline.collect.rating import ADEQUACY, OTHER_PAIR, Loaded, Rating, chosen
from pipeline.core.errors import InputError
from pipeline.files.fetch import local
from pipeline.files.lines import check_unicode, number
from pipeline.files.tables import Row, kind, read_table, table_files


def load_own(corpus: Corpus) -> Loaded:
    """Rows in the order of parts, files and lines; equal rows stay, as several judgements of the same."""
    files = [file for part in corpus.parts for file in table_files(local(part.path, part.sha256))]
    loaded = Loaded([], Counter())
    for number_, file in enumerate(files, start=1):
        prefix = f"{number_}/" if len(files) > 1 else ""
        for line, row in read_table(file, ("candidate", "score")):
            rating = _rating(row, f"{prefix}{line}", corpus.scale, file, line)
            if chosen(rating.language_pair, corpus.language_pairs):
                loaded.ratings.append(rating)
            else:
                loaded.dropped[OTHER_PAIR] += 1
    return loaded


def _rating(row: Row, key: str, scale: float | None, file: Path, line: int) -> Rating:
    reference, *others = _references(row, file, line)
    rated = scaled_number(row["score"], "score", scale, file, line)
    return Rating(
        key=key,
        aspect=ADEQUACY,
        reference=reference,
        other_references=tuple(others),
        candidate=text(row["candidate"], "candidate", file, line),
        source=text(row.get("source"), "source", file, line) or None,
        language_pair=text(row.get("language_pair"), "language_pair", file, line) or None,
        system=_name(row.get("system"), "system", file, line),
        segment=_name(row.get("segment"), "segment", file, line),
        year=None,
        raw=rated if scale is not None else None,
        z=rated if scale is None else None,
        score=rated / scale if scale is not None else rated,
    )


def scaled_number(value: object, what: str, scale: float | None, file: Path, line: int) -> float:
    """A finite number that, where there is a scale, lies on it."""
    found = number(value, what, file, line)
    if scale is not None and not 0 <= found <= scale:
        raise InputError(f"{what} lies outside the scale 0-{scale:g}", file=file, line=line, value=value)
    return found


def text(value: object, what: str, file: Path, line: int) -> str:
    """A cell as text without surrounding white space; null is empty."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InputError(f"{what} is not text", file=file, line=line, value=value)
    check_unicode(value, file, line)
    return value.strip()


def _name(value: object, what: str, file: Path, line: int) -> str | None:
    """A cell that names something: text, or a whole number (which some writers store as 7.0)."""
    if isinstance(value, int | float) and not isinstance(value, bool) and float(value).is_integer():
        return str(int(value))
    return text(value, what, file, line) or None


def _references(row: Row, file: Path, line: int) -> list[str]:
    """`reference` and those of `references` that are neither empty nor said before; at least one."""
    if "reference" not in row and "references" not in row:
        first_line = line if kind(file) == ".jsonl" else 1
        raise InputError("the column is missing", file=file, line=first_line, value="reference")
    if "reference" in row and not (first := text(row["reference"], "reference", file, line)):
        raise InputError("reference is empty", file=file, line=line, value=row["reference"])
    further = [text(item, "references", file, line) for item in _list(row.get("references"), file, line)]
    found = list(dict.fromkeys(item for item in ([first] if "reference" in row else []) + further if item))
    if not found:
        raise InputError("references is empty", file=file, line=line, value=row["references"])
    return found


def _list(value: object, file: Path, line: int) -> list[object]:
    if value is None or value == "":
        return []
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = None
    if not isinstance(value, list):
        raise InputError("references is not a list of texts", file=file, line=line, value=value)
    return value
