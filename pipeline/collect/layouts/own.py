"""A user's own ratings: a table (`pipeline.files.tables`), a folder of tables, or standard input ("-").

Columns: `candidate`, `score` and `reference` or `references` (a text, or a list of texts of which the first is the
reference; in CSV and TSV `references` holds a JSON list), and, if known, `source`, `system`, `segment` and
`language_pair`. Other columns are ignored. Rows of equal `segment` and reference are rated against each other, whatever
file they stand in (there may be a file for each system); equal numbers of different references are different segments.

With `scale: 100` a `score` is a raw rating from 0 to 100, and the training target is score / 100. This constant does
not move when rows are added or split again, as a standardisation over the corpus would. With `scale: null` a score is a
standardised rating and the target itself, as WMT's are: only such ratings train beside WMT's.
"""

from collections import Counter
from pathlib import Path

from pipeline.collect.corpus import (
    ADEQUACY,
    OTHER_PAIR,
    Corpus,
    Layout,
    Loaded,
    Part,
    Rating,
    is_chosen,
    number_on_scale,
)
from pipeline.core.errors import InputError
from pipeline.files.fetch import local
from pipeline.files.lines import STANDARD_INPUT
from pipeline.files.tables import REFERENCES, Row, open_table, reference_texts, table_files, text

LAYOUT = Layout(raw=True, by_system=True)


def load(corpus: Corpus) -> Loaded:
    """Ratings in the order of parts, files and lines; equal rows stay, as several judgements of the same."""
    files = [file for part in corpus.parts for file in _files(part)]
    loaded = Loaded([], Counter())
    for number, file in enumerate(files, start=1):
        prefix = f"{number}/" if len(files) > 1 else ""
        with open_table(file) as table:
            for line, row in table.rows(("candidate", "score", REFERENCES)):
                rating = _rating(row, f"{prefix}{line}", corpus.scale, table.name, line)
                if is_chosen(rating.language_pair, corpus.language_pairs):
                    loaded.ratings.append(rating)
                else:
                    loaded.dropped[OTHER_PAIR] += 1
    return loaded


def _files(part: Part) -> list[Path]:
    return [Path(part.path)] if part.path == STANDARD_INPUT else table_files(local(part.path, part.sha256))


def _rating(row: Row, key: str, scale: float | None, file: str, line: int) -> Rating:
    reference, *others = _references(row, file, line)
    rated = number_on_scale(row["score"], "score", scale, file, line)
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


def _references(row: Row, file: str, line: int) -> list[str]:
    """The different references that are not empty, at least one."""
    found = [one.strip() for one in reference_texts(row, file, line)]
    if not any(found):
        name = next(name for name in REFERENCES if name in row)
        raise InputError(f"{name} is empty", file=file, line=line, value=row[name])
    return list(dict.fromkeys(filter(None, found)))


def _name(value: object, what: str, file: str, line: int) -> str | None:
    """A cell that names something: text, or a whole number, which some writers store as 7.0."""
    if isinstance(value, int | float) and not isinstance(value, bool) and float(value).is_integer():
        return str(int(value))
    return text(value, what, file, line) or None
