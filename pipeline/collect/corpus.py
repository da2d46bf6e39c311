"""A corpus of human ratings: the section `collect` of params.yaml, its files, and the rows that a layout makes of them.

A layout is how a corpus is stored. Each is a module of `pipeline.collect.layouts`, found by its name, with

- `LAYOUT`, a `Layout`: what params.yaml may say about a corpus in this layout;
- `load(corpus: Corpus) -> Loaded`: its ratings, in an order that is the same at every run.

A corpus's files are found by name, at any depth: in published archives, unpacked ones and flat folders.
"""

import enum
import fnmatch
import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from pipeline.core import modules
from pipeline.core.errors import InputError
from pipeline.core.params import AtLeastOne, NotNegative, Positive, ShareBelowOne, params
from pipeline.files.fetch import is_archive, local
from pipeline.files.lines import number

LAYOUTS = "pipeline.collect.layouts"

ADEQUACY = "adequacy"
"""The aspect that WMT's direct assessments judge, and that own files are taken to judge."""

OTHER_PAIR = "language pair not chosen"
NO_TEXTS = "no texts of the language pair"
NO_REFERENCE = "no reference"

TRAIN, VALIDATION, TEST = "train", "validation", "test"
"""The column `split` of a rating."""

MAX_DEPTH = 3
"""How deep archives may lie inside archives; WMT17's texts are an archive inside its package."""


class Split(enum.StrEnum):
    """What a corpus is for."""

    TRAIN = "train"  # `validation_fraction` of the rows is held out
    TEST = "test"
    BY_REFERENCE = "by_reference"  # `test_fraction` of the rows for test, the rest as TRAIN; no reference is shared
    BY_INPUT = "by_input"  # the same, but a fraction of the inputs, whatever their rows (paper, section 5.3)
    PUBLISHED = "published"  # as the corpus itself is divided
    BY_SYSTEM = "by_system"  # a fraction of the systems; training and test share inputs (paper, section 5.3)


DIVIDED = (Split.BY_REFERENCE, Split.BY_INPUT, Split.BY_SYSTEM)
"""Splits that divide one corpus between training and test."""


@dataclass(frozen=True)
class Layout:
    """What params.yaml may say about a corpus in this layout.

    `raw`: its ratings may be raw ones, on a scale that params.yaml names. `standardised`: they may be standardised ones
    (`scale: null`). `by_system`: every row names one system, so that the corpus can be split by system. `years`: it
    holds several years, and params.yaml chooses among them. `splits`: every row says to which split it belongs.
    """

    raw: bool = False
    standardised: bool = True
    by_system: bool = False
    years: bool = False
    splits: bool = False


@params
class Part:
    """One place that holds files of a corpus.

    `path`: a folder, a file, an archive (.tar.gz, .tgz, .zip), the http(s) URL of a file or an archive, or, for the
    layout hub, the name of a data set there (`owner/name@revision` pins it). `sha256`: of the file or archive. Without
    it nothing is checked, and the sum of a download is printed, so that it can be pinned.
    """

    path: str
    sha256: str | None = None


@params
class Corpus:
    """One corpus; keys that params.yaml leaves out have the values of `collect.defaults.corpora`.

    `name`: unique; the column `corpus`. `layout`: a module of `pipeline.collect.layouts`. `parts`: where it lies (WMT18
    and WMT19 are published in two archives, ratings and texts). `language_pairs`: shell patterns such as "*-en"; a row
    is taken if its pair matches any of them, and "*" takes rows without a pair too. `years`: those to take; empty for
    all. `test_fraction`: in (0, 1], of a split that divides the corpus; 1 tests on everything. `scale`: the highest raw
    rating (100 for 0-100), by which ratings are divided; null if they are standardised already.
    """

    name: str
    layout: str
    parts: tuple[Part, ...]
    split: Split
    language_pairs: tuple[str, ...]
    years: tuple[int, ...]
    test_fraction: Annotated[float, Field(gt=0, le=1)] | None
    scale: Positive | None

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        if not self.name or "/" in self.name:
            raise ValueError(f"name: must not be empty, nor hold a slash, but is {self.name!r}")
        for key in ("parts", "language_pairs"):
            if not getattr(self, key):
                raise ValueError(f"{key}: must not be empty")
        if (self.split in DIVIDED) != (self.test_fraction is not None):
            raise ValueError(f"test_fraction: belongs to split {', '.join(DIVIDED)}, and only to these")
        known = modules.names(LAYOUTS)
        if self.layout not in known:
            raise ValueError(f"layout: must be one of {', '.join(known)}, not {self.layout!r}")
        self._fits_its_layout(modules.load(LAYOUTS, self.layout, "layout").LAYOUT)
        return self

    def _fits_its_layout(self, layout: Layout) -> None:
        if self.years and not layout.years:
            raise ValueError(f"years: must be empty, layout {self.layout} holds a single one")
        for split, able, what in (
            (Split.BY_SYSTEM, "by_system", "name a system in every row"),
            (Split.PUBLISHED, "splits", "name a split in every row"),
        ):
            if self.split is split and not getattr(layout, able):
                known = [name for name, module in modules.load_all(LAYOUTS).items() if getattr(module.LAYOUT, able)]
                raise ValueError(f"split: {split} is for layouts {', '.join(known)}, which {what}")
        if self.scale is not None and not layout.raw:
            raise ValueError(f"scale: must be null, ratings of layout {self.layout} are standardised")
        if self.scale is None and not layout.standardised:
            raise ValueError(f"scale: must be a number, ratings of layout {self.layout} are raw ones")


@params
class DriftParams:
    """Skew of the training ratings towards low ones and of the test ratings towards high ones; 0 is none.

    The paper's values are 0, 0.5, 1, 1.5 and 3 (section 5.2). Validation rows are taken from the skewed training rows.
    """

    train_alpha: NotNegative
    test_alpha: NotNegative


@params
class CollectParams:
    """Section `collect`.

    `without`: names of corpora that this run leaves out, because training for one benchmark need not read the others.
    `language_pairs`: patterns for all corpora instead of their own; null for each corpus's own.
    `validation_fraction`: share of the training rows that is held out. `max_words`: a row with a longer reference or
    candidate is dropped, because some baselines take minutes on a text of thousands of words.
    `undo_character_references`: `&quot;` becomes the character that raters saw; a third of WMT17's rows hold some.
    """

    corpora: tuple[Corpus, ...]
    without: tuple[str, ...]
    language_pairs: tuple[str, ...] | None
    validation_fraction: ShareBelowOne
    max_words: AtLeastOne
    undo_character_references: bool
    rows_per_shard: AtLeastOne
    drift: DriftParams
    seed: int

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        names = [corpus.name for corpus in self.corpora]
        if not names or len(set(names)) < len(names):
            raise ValueError(f"corpora: there must be names, all different, not {names}")
        unknown = sorted(set(self.without) - set(names))
        if unknown or len(set(self.without)) == len(names):
            wrong = f"not {', '.join(unknown)}" if unknown else "and not all of them"
            raise ValueError(f"without: must name corpora of the profile ({', '.join(names)}), {wrong}")
        return self


@dataclass(frozen=True, slots=True)
class Rating:
    """A row of `pipeline.core.records.RATINGS` (units there) before it has a corpus name and a split.

    `key` is unique in its corpus; the row's rating_id is "<corpus>/<key>". `published`: (name, score) of the metrics
    whose scores came with the rating, higher is better. `system_ratings`: (name, people's score) of its systems.
    `split`: TRAIN, VALIDATION or TEST where the corpus says so.
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
    system_ratings: tuple[tuple[str, float], ...] = ()
    split: str | None = None


@dataclass(frozen=True)
class Loaded:
    """A corpus's ratings, and how many were left out for which reason."""

    ratings: list[Rating]
    dropped: Counter[str]


def is_chosen(language_pair: str | None, patterns: Sequence[str]) -> bool:
    """Does any shell pattern match the pair? "*" takes rows without a pair too.

    >>> is_chosen("de-en", ["*-en"]), is_chosen("en-de", ["*-en"]), is_chosen(None, ["*"])
    (True, False, True)
    """
    return any(fnmatch.fnmatchcase(language_pair or "", pattern) for pattern in patterns)


def number_on_scale(value: object, what: str, scale: float | None, file: str, line: int) -> float:
    """`value` as a finite number; if there is a scale, from 0 to its end."""
    found = number(value, what, file, line)
    if scale is not None and not 0 <= found <= scale:
        raise InputError(f"{what} lies outside the scale 0-{scale:g}", file=file, line=line, value=value)
    return found


class FileIndex:
    """All files below some folders, by name."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.paths: dict[str, list[Path]] = {}
        for folder in folders:
            for place, _, names in os.walk(folder):
                for name in names:
                    if not name.startswith("."):
                        self.paths.setdefault(name, []).append(Path(place) / name)

    def all(self, name: str) -> list[Path]:
        """Every file of this name: those below a folder `txt` first (as WMT packs), then the shallowest."""
        return sorted(self.paths.get(name, []), key=lambda path: ("txt" not in path.parts, len(path.parts), str(path)))

    def find(self, name: str) -> Path | None:
        """The first of `all`, if any."""
        return next(iter(self.all(name)), None)

    def matching(self, pattern: str) -> list[re.Match[str]]:
        """Full matches of file names, sorted by name."""
        return [match for name in sorted(self.paths) if (match := re.fullmatch(pattern, name))]


def open_parts(parts: Sequence[Part], archives: str) -> FileIndex:
    """An index of the files of `parts`, and of every archive inside them whose name without ending matches `archives`.

    A part that is neither a folder nor an archive is an InputError.
    """
    places = [local(part.path, part.sha256) for part in parts]
    for part, place in zip(parts, places, strict=True):
        if not place.is_dir():
            raise InputError("neither a folder nor an archive (.tar.gz, .tgz, .zip)", file=part.path)
    found, index = list(places), FileIndex(places)
    for _ in range(MAX_DEPTH):
        inner = [index.all(name)[0] for name in sorted(index.paths) if _is_wanted(name, archives)]
        folders = [folder for folder in (local(str(file), None) for file in inner) if folder not in found]
        if not folders:
            break
        found += folders
        index = FileIndex(found)
    return index


def _is_wanted(name: str, archives: str) -> bool:
    return is_archive(Path(name)) and re.fullmatch(rf"({archives})\.(tgz|tar\.gz|tar|zip)", name) is not None
