"""One rating, and what a corpus's loader returns."""

import fnmatch
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

ADEQUACY = "adequacy"
"""The aspect that WMT's direct assessments judge, and that own files are taken to judge."""

OTHER_PAIR = "language pair not chosen"
NO_TEXTS = "no texts of the language pair"
NO_REFERENCE = "no reference"


@dataclass(frozen=True, slots=True)
class Rating:
    """A row of `pipeline.core.records.RATINGS` (units there) before it has a corpus name and a split.

    `key` is unique in its corpus; the row's rating_id is "<corpus>/<key>".
    """

    key: str
    aspect: str
    reference: str
    other_references: tuple[str, ...]
    candidate: str
    source: str | None
    language_pair: str | None
    system: str | None
    segment: str | None
    year: int | None
    raw: float | None
    z: float | None
    score: float
    published: tuple[tuple[str, float], ...] = ()
    """(name, score) of the metrics whose scores came with the rating, higher is better."""


@dataclass(frozen=True)
class Loaded:
    """A corpus's rows, and how many ratings were left out for which reason."""

    ratings: list[Rating]
    dropped: Counter[str]


def chosen(language_pair: str | None, patterns: Sequence[str]) -> bool:
    """Does any shell pattern match the pair? "*" takes rows without a pair too.

    >>> chosen("de-en", ["*-en"]), chosen("en-de", ["*-en"]), chosen(None, ["*"])
    (True, False, True)
    """
    return any(fnmatch.fnmatchcase(language_pair or "", pattern) for pattern in patterns)
