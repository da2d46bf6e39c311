"""The metrics that ours is compared with, and what a metric declares.

A metric is a `Metric` in the tuple `METRICS` of a module of this folder; a module may offer several. There is no list
of the modules. To add a metric to the stage evaluate, to `bleurt benchmark` and to `bleurt compare`, add its module,
its name in `evaluate.baselines` of params.yaml, its `Section` if it has settings, and its test. Higher is better
everywhere: an error rate is negated. Modules import their libraries when they score, because `bleurt` asks for the
metrics' names only.
"""

import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy

from pipeline.core import modules
from pipeline.core.errors import ModelError
from pipeline.core.params import load_params

Row = dict[str, Any]
"""A row of RATINGS."""


class Reads(enum.Flag):
    """What a metric reads of a row."""

    REFERENCE = enum.auto()
    """One reference. If a row has several, each is scored and the highest score counts (paper, section 5.3)."""

    REFERENCES = enum.auto()
    """All references of a row together."""

    SOURCE = enum.auto()
    CANDIDATE = enum.auto()


class UnreadableError(ModelError):
    """A metric finds while scoring that its model does not know the language of the texts; they are left out."""


class Level(enum.StrEnum):
    """What a metric scores: every segment, or a system by all its segments at once."""

    SEGMENT = "segment"
    SYSTEM = "system"


@dataclass(frozen=True)
class Texts:
    """n segments. What the metric does not read is empty: `references` are n empty tuples, `sources` are n None."""

    references: tuple[tuple[str, ...], ...]
    sources: tuple[str | None, ...]
    candidates: tuple[str, ...]

    @property
    def reference(self) -> list[str]:
        """The first reference of each segment; of a metric that reads REFERENCE it is the only one."""
        return [texts[0] for texts in self.references]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """First reference and candidate of each segment."""
        return list(zip(self.reference, self.candidates, strict=True))


def texts_of(references: Iterable[str], candidates: Iterable[str]) -> Texts:
    """Segments with one reference each and no source.

    >>> texts_of(["a b"], ["a c"]).pairs
    [('a b', 'a c')]
    """
    candidates = tuple(candidates)
    return Texts(tuple((text,) for text in references), (None,) * len(candidates), candidates)


def _as_given(params: Any, validation: Sequence[Row], batch_tokens: int) -> Any:
    return params


@dataclass(frozen=True)
class Section:
    """The settings of a module's metrics: the section `evaluate.<name>` of params.yaml.

    `params`: its class, made by `pipeline.core.params.params`. `models(settings)`: names of the models that are used,
    or paths of files.
    `settle(params, validation rows, batch_tokens)`: the settings that the metrics get; what the params leave open is
    chosen on the validation ratings.
    """

    name: str
    params: type
    models: Callable[[Any], tuple[str, ...]]
    settle: Callable[[Any, Sequence[Row], int], Any] = _as_given


class Corpus(Protocol):
    """A score of a whole system that is computed from counts which are summed over its segments."""

    def counts(self, texts: Texts) -> numpy.ndarray:
        """The counts of each segment, float64 (segments, counts)."""

    def total(self, counts: numpy.ndarray) -> float:
        """The score of summed `counts` (counts,), as the metric's authors print it: TER is not negated here."""

    def signature(self) -> str:
        """How the score was computed; call `counts` first."""


def _reads_everything(texts: Texts) -> bool:
    return True


@dataclass(frozen=True)
class Metric:
    """What a metric declares.

    `name`: as in params.yaml and in all tables. `reads`: which texts it needs. `level`: what it scores.

    `score(texts, settings, batch_tokens)`: float64, higher is better: (segments,), or (segments, outputs) if it has
    `aspects`; a metric of the level SYSTEM gives one number, shape (), for the segments of one system. `settings` are
    those of its `section`, None if it has none; `batch_tokens` may change speed and memory only.

    `signature(settings)`: what a reader needs to get the same scores. `can_read(texts)`: whether it finds words in this
    writing; if it finds none, its scores would all be alike, and it is left out.

    `title`: its name in `bleurt compare`. `corpus`: how it scores a system there, if not by the mean over the segments.
    `aspects`: what each of several outputs judges. `apart`: whether the rows of each corpus and language pair are
    scored by themselves, because scores depend on the rows beside them (IDF).
    """

    name: str
    reads: Reads
    score: Callable[[Texts, Any, int], numpy.ndarray]
    signature: Callable[[Any], str]
    level: Level = Level.SEGMENT
    can_read: Callable[[Texts], bool] = _reads_everything
    section: Section | None = None
    title: str = ""
    corpus: Callable[[], Corpus] | None = None
    aspects: tuple[str, ...] = ()
    apart: bool = True


def known_metrics() -> dict[str, Metric]:
    """Every metric of this folder by its name."""
    metrics = [metric for module in modules.load_all(__name__).values() for metric in module.METRICS]
    found = {metric.name: metric for metric in metrics}
    assert len(found) == len(metrics), f"two metrics have one name: {sorted(metric.name for metric in metrics)}"
    return found


def check_names(wanted: Sequence[str]) -> None:
    """A ValueError that begins with a place in the list `baselines` if a name is unknown or occurs twice."""
    known = known_metrics()
    for place, name in enumerate(wanted):
        if name not in known:
            raise ValueError(f"baselines[{place}]: must be one of {', '.join(known)}, not {name!r}")
        if name in wanted[:place]:
            raise ValueError(f"baselines: names {name} twice")


def sections_of(metrics: Iterable[Metric]) -> dict[str, Section]:
    """The sections of `metrics` by their names."""
    return {metric.section.name: metric.section for metric in metrics if metric.section is not None}


def load_sections(file: Path, metrics: Iterable[Metric]) -> dict[str, Any]:
    """The params of `metrics`: name of the section -> its values in `file`; a metric without a section has none."""
    return {
        name: load_params(file, f"evaluate.{name}", section.params) for name, section in sections_of(metrics).items()
    }


@dataclass(frozen=True)
class Settled:
    """Settings of the metrics by the names of their sections, and why the other metrics of `failed` cannot score."""

    settings: dict[str, Any]
    failed: dict[str, str]


def settle(metrics: Iterable[Metric], given: dict[str, Any], validation: Sequence[Row], batch_tokens: int) -> Settled:
    """Settle the sections of `metrics`, whose params are `given`, and look whether their models are here.

    A model that cannot be used fails the metrics of its section and no other; see `Section` for the arguments.
    """
    metrics = list(metrics)
    settings: dict[str, Any] = {}
    failed: dict[str, str] = {}
    for name, section in sections_of(metrics).items():
        try:
            settings[name] = section.settle(given[name], validation, batch_tokens)
            model_files(section.models(settings[name]))
        except ModelError as error:
            failed |= {metric.name: str(error) for metric in metrics if metric.section is section}
    return Settled(settings, failed)


def model_files(names: Iterable[str]) -> list[Path]:
    """The file or the folder of each model: a file's path, or a name as `pipeline.core.models` knows it."""
    from pipeline.core.models import locate

    return [Path(name) if Path(name).is_file() else locate(name) for name in names]


def settings_of(metric: Metric, settled: dict[str, Any]) -> Any:
    """The settings of `metric` among those of the `settled` sections."""
    return None if metric.section is None else settled[metric.section.name]


def score_pairs(name: str, references: Sequence[str], candidates: Sequence[str]) -> numpy.ndarray:
    """Scores of pairs by a metric that has no settings, float64 (pairs,).

    "a b c d" against "a b c e" in TER: one edit of four words, negated.

    >>> score_pairs("ter", ["a b c d"], ["a b c e"]).tolist()
    [-25.0]
    """
    return known_metrics()[name].score(texts_of(references, candidates), None, 0)
