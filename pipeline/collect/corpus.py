"""The section `collect` of params.yaml: which corpora, in which layout, for which split."""

import enum
from dataclasses import dataclass

from pipeline.core.errors import ParamsError


class Layout(enum.StrEnum):
    """How a corpus lies on disk."""

    WMT_DASEG = "wmt_daseg"  # 2015 and 2016: DAseg.newstest{Y}.{human,reference,mt-system,source}.{lp}
    WMT17 = "wmt17"  # DA-seglevel.csv and newstest2017 texts
    WMT18 = "wmt18"  # ad-seg-scores-{lp}.csv and newstest2018 texts
    WMT19 = "wmt19"  # the same of 2019
    HUB = "hub"  # columns lp, src, mt, ref, score (z), raw, year: a hub name, or CSV or Parquet files
    WEBNLG = "webnlg"  # WebNLG 2017 human evaluation
    OWN = "own"  # CSV, TSV, JSONL or Parquet with columns reference, candidate, score


class Split(enum.StrEnum):
    """What a corpus is for."""

    TRAIN = "train"  # of which `validation_fraction` is held out
    TEST = "test"
    BY_REFERENCE = "by_reference"  # `test_fraction` of the rows for test, the rest as TRAIN; no reference is shared
    BY_INPUT = "by_input"  # the same of the inputs, however many rows each has (paper, section 5.3)
    BY_SYSTEM = "by_system"  # the same of the systems; training and test share inputs (paper, section 5.3)


DIVIDED = (Split.BY_REFERENCE, Split.BY_INPUT, Split.BY_SYSTEM)
"""Splits that part one corpus."""

SCALED = (Layout.WEBNLG, Layout.OWN)
"""Layouts whose ratings may be raw ones on a scale that params.yaml names."""


@dataclass(frozen=True)
class Part:
    """One place that a corpus lies in.

    `path`: a folder, a file, an archive (.tar.gz, .tgz, .zip), an http(s) URL of either, or the name of a hub data set
    (layout hub; `owner/name@revision` pins it). `sha256`: of the file or archive; null skips the check, and for a URL
    prints the sum to pin.
    """

    path: str
    sha256: str | None


@dataclass(frozen=True)
class Corpus:
    """One corpus.

    `name`: unique; the column `corpus`. `parts`: where it lies; WMT18 and WMT19 are published in two archives, ratings
    and texts. `language_pairs`: shell patterns such as "*-en", any of which must match; "*" takes rows without a pair
    too. `years`: of the hub data set, empty for all; empty for other layouts. `test_fraction`: in (0, 1], where 1 tests
    on everything; with `by_reference`, `by_input` and `by_system`, else null. `scale`: the highest raw rating (100 for
    0-100), by which raw ratings are divided; null where ratings are standardised already.
    """

    name: str
    layout: Layout
    parts: tuple[Part, ...]
    language_pairs: tuple[str, ...]
    years: tuple[int, ...]
    split: Split
    test_fraction: float | None
    scale: float | None

    def __post_init__(self) -> None:
        where = f"collect.corpora, {self.name!r}"
        if not self.name or "/" in self.name:
            raise ParamsError(f"{where}: name must not be empty, nor hold a slash.")
        if not self.parts or not self.language_pairs:
            raise ParamsError(f"{where}: parts and language_pairs must not be empty.")
        if self.years and self.layout is not Layout.HUB:
            raise ParamsError(f"{where}: years must be empty, layout {self.layout.value} holds a single one.")
        if (self.split in DIVIDED) != (self.test_fraction is not None):
            raise ParamsError(f"{where}: test_fraction belongs to split {', '.join(DIVIDED)}, and only to these.")
        if self.test_fraction is not None and not 0 < self.test_fraction <= 1:
            raise ParamsError(f"{where}: test_fraction must be in (0, 1], not {self.test_fraction}.")
        if self.split is Split.BY_SYSTEM and self.layout not in SCALED:
            raise ParamsError(f"{where}: split by_system is for layouts {', '.join(SCALED)}, which name one a row.")
        self._check_scale(where)

    def _check_scale(self, where: str) -> None:
        if self.scale is not None and self.layout not in SCALED:
            raise ParamsError(f"{where}: scale must be null, ratings of layout {self.layout.value} are standardised.")
        if self.layout is Layout.WEBNLG and self.scale is None:
            raise ParamsError(f"{where}: scale must be a number for layout webnlg (3: it was rated from 1 to 3).")
        if self.scale is not None and not self.scale > 0:
            raise ParamsError(f"{where}: scale must be positive, not {self.scale}.")


@dataclass(frozen=True)
class DriftParams:
    """Skew of the training ratings towards low ones, of the test ratings towards high ones; at least 0, which is none.

    The paper's are 0, 0.5, 1, 1.5 and 3 (section 5.2). Validation rows are taken from the skewed training rows.
    """

    train_alpha: float
    test_alpha: float

    def __post_init__(self) -> None:
        for name in ("train_alpha", "test_alpha"):
            if getattr(self, name) < 0:
                raise ParamsError(f"collect.drift.{name}: must be at least 0, not {getattr(self, name)}.")


@dataclass(frozen=True)
class CollectParams:
    """Section `collect`.

    `without`: names of corpora that this run leaves out; training for one benchmark need not read the others.
    `validation_fraction` (0-1, 1 excluded): share of the training rows that is held out. `max_words`: a row with a
    longer reference or candidate is dropped, for some baselines take minutes on a text of thousands of words.
    `undo_character_references`: `&quot;` becomes the character that raters saw; a third of WMT17's rows hold such.
    """

    corpora: tuple[Corpus, ...]
    without: tuple[str, ...]
    validation_fraction: float
    max_words: int
    undo_character_references: bool
    rows_per_shard: int
    drift: DriftParams
    seed: int

    def __post_init__(self) -> None:
        names = [corpus.name for corpus in self.corpora]
        if not names or len(set(names)) < len(names):
            raise ParamsError(f"collect.corpora: names must be there and unique, not {names}.")
        unknown = sorted(set(self.without) - set(names))
        if unknown or len(set(self.without)) == len(names):
            wrong = f"not {', '.join(unknown)}" if unknown else "and not all of them"
            raise ParamsError(f"collect.without: must name corpora of the profile ({', '.join(names)}), {wrong}.")
        if not 0 <= self.validation_fraction < 1:
            raise ParamsError(f"collect.validation_fraction: must be in [0, 1), not {self.validation_fraction}.")
        for name in ("max_words", "rows_per_shard"):
            if getattr(self, name) < 1:
                raise ParamsError(f"collect.{name}: must be at least 1, not {getattr(self, name)}.")
