"""DVC experiments as curves: which runs differ in only one setting, and what each of them reached.

`dvc exp show --json` prints every run's params.yaml and reports/metrics.json. The workspace is left out, because its
params.yaml may have changed since its metrics were made, and its runs are experiments or commits as well.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.core.errors import InputError
from pipeline.core.params import MODELS
from pipeline.core.records import TRAINED

TOGETHER: tuple[tuple[str, ...], ...] = (("collect.drift.train_alpha", "collect.drift.test_alpha"),)
"""Settings that one study changes at once, to the same value."""

IRRELEVANT = ("report.", "evaluate.baselines", "evaluate.resamples", "evaluate.permutations", "evaluate.batch_tokens")
"""Beginnings of the settings that do not change the agreement of a metric."""

WORKSPACE = "workspace"
"""DVC's name for the files as they are now."""

VARIANTS = "variants"
"""The setting that ablations differ in. A run has several variants, and each is a metric of its own."""

ENCODER = "pretrain.encoder"
"""The setting whose values are lines of one chart: the model that training started from (paper, figure 3)."""

MOST_SETS = 4
"""Most studies of one setting that are shown, if other settings divide its runs into sets of one size."""

Cell = tuple[str, str, str]
"""Corpus, aspect, metric."""


@dataclass(frozen=True)
class Run:
    """One experiment: the settings of its profile by dotted key, and statistics x 100 for every cell."""

    name: str
    settings: Mapping[str, Any]
    kendall: Mapping[Cell, float]
    pearson: Mapping[Cell, float]


@dataclass(frozen=True)
class Study:
    """Runs that differ only in `keys`, from the lowest value to the highest; `values[i]` is that of `runs[i]`.

    `where` has the settings that distinguish this study from others of the same keys.
    """

    keys: tuple[str, ...]
    values: tuple[Any, ...]
    runs: tuple[Run, ...]
    where: Mapping[str, Any] = field(default_factory=dict)

    def line(self, cell: Cell) -> list[tuple[Any, float]]:
        """Value and Kendall x 100 of one metric, for the runs that have it."""
        pairs = zip(self.values, self.runs, strict=True)
        return [(value, run.kendall[cell]) for value, run in pairs if cell in run.kendall]

    def has_line(self) -> bool:
        """Whether any trained metric has more than one point."""
        cells = {cell for run in self.runs for cell in run.kendall if cell[2].startswith(TRAINED)}
        return any(len(self.line(cell)) > 1 for cell in cells)


def read_runs(text: str, source: str) -> list[Run]:
    """The finished runs in `text`, which `dvc exp show --json` printed, each once; an InputError for any other text.

    `source` names the text in the error.
    """
    try:
        shown = json.loads(text)
        if not isinstance(shown, list):
            raise TypeError(f"a list of revisions, not {type(shown).__name__}")
        revisions = [revision for revision in shown if revision["rev"] != WORKSPACE]
        found = [run for revision in revisions for run in _runs_of(revision)]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"is not what `dvc exp show --json` prints ({error})", file=source) from error
    distinct: dict[str, Run] = {}
    for run in found:
        distinct.setdefault(json.dumps(run.settings, sort_keys=True), run)
    return list(distinct.values())


def _runs_of(revision: Mapping[str, Any]) -> Iterator[Run]:
    """The revision and its experiments, except those without metrics."""
    data = revision.get("data") or {}
    params = (data.get("params") or {}).get("params.yaml", {}).get("data")
    metrics = (data.get("metrics") or {}).get("reports/metrics.json", {}).get("data")
    if params and metrics:
        yield Run(
            revision.get("name") or revision["rev"][:7],
            settings(params),
            _statistic(metrics["agreement"], "kendall"),
            _statistic(metrics["agreement"], "pearson"),
        )
    for experiment in revision.get("experiments") or []:
        for one in experiment["revs"]:
            yield from _runs_of(one)


def _statistic(agreement: Mapping[str, Any], name: str) -> dict[Cell, float]:
    return {
        (corpus, aspect, metric): 100 * values[name]
        for corpus, aspects in agreement.items()
        for aspect, metrics in aspects.items()
        for metric, values in metrics.items()
        if values.get(name) is not None
    }


def settings(params: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted key -> value: the shared sections, and those of the chosen profile under the same names.

    The encoder is named even if `pretrain` only has its key in the profile's models.

    >>> settings({"profile": "p", "a": {"b": 1}, "profiles": {"p": {"a": {"c": 2}}, "q": {"a": {"c": 3}}}})
    {'profile': 'p', 'a.b': 1, 'a.c': 2}
    """
    shared = {name: value for name, value in params.items() if name != "profiles"}
    found = {**_flat(shared), **_flat(params["profiles"][params["profile"]])}
    model = found.get(f"{MODELS}.{found.get(ENCODER)}")
    return found if model is None else found | {ENCODER: model}


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{prefix}{name}.")
        elif isinstance(value, list) and any(isinstance(one, dict) for one in value):
            found |= _flat({str(i): one for i, one in enumerate(value)}, f"{prefix}{name}.")
        else:
            found[prefix + name] = value
    return found


def studies(runs: Sequence[Run]) -> list[Study]:
    """For every setting that varies, the largest sets of runs that differ only in it; in the order of params.yaml.

    Runs of a set may also differ in variants and encoder: these become lines of their own.
    """
    keys = list(dict.fromkeys(key for run in runs for key in run.settings))
    joint = {key: group for group in TOGETHER for key in group}
    groups = dict.fromkeys(joint.get(key, (key,)) for key in keys if key != VARIANTS)
    return [study for group in groups for study in _studies(group, runs)]


@dataclass(frozen=True)
class Ablation:
    """Variants of runs that do not differ otherwise: `runs` by the trained metric's name."""

    runs: Mapping[str, Run]

    def line(self, corpus: str, aspect: str) -> dict[str, tuple[float, float]]:
        """Metric -> Kendall and Pearson x 100 (NaN where unknown), in the order of `runs`."""
        cells = {name: (run, (corpus, aspect, name)) for name, run in self.runs.items()}
        return {
            name: (run.kendall[cell], run.pearson.get(cell, math.nan))
            for name, (run, cell) in cells.items()
            if cell in run.kendall
        }


def ablation(runs: Sequence[Run]) -> Ablation | None:
    """The largest set of variants of runs that do not differ otherwise; None without any only_SIGNAL or no_SIGNAL."""
    groups: dict[str, dict[str, Run]] = {}
    for run in runs:
        rest = {key: value for key, value in run.settings.items() if not key.startswith((VARIANTS, *IRRELEVANT))}
        group = groups.setdefault(json.dumps(rest, sort_keys=True), {})
        for _, _, metric in run.kendall:
            if metric.startswith(TRAINED):
                group.setdefault(metric, run)
    ablated = [group for group in groups.values() if any(map(_is_ablated, group))]
    return Ablation(max(ablated, key=len)) if ablated else None


def _is_ablated(metric: str) -> bool:
    return metric.removeprefix(TRAINED).startswith(("only_", "no_"))


def _studies(keys: tuple[str, ...], runs: Sequence[Run]) -> list[Study]:
    groups: dict[str, dict[str, list[Run]]] = {}
    for run in runs:
        values = [run.settings.get(key) for key in keys]
        if keys[0].startswith(IRRELEVANT) or any(value != values[0] for value in values):
            continue
        aside = (*keys, VARIANTS, ENCODER)
        rest = {
            key: value for key, value in run.settings.items() if key not in aside and not key.startswith(IRRELEVANT)
        }
        group = groups.setdefault(json.dumps(rest, sort_keys=True), {})
        group.setdefault(json.dumps(values[0]), []).append(run)
    most = max(map(len, groups.values()), default=0)
    if most < 2:
        return []
    largest = {rest: group for rest, group in groups.items() if len(group) == most}
    settings_of = [json.loads(rest) for rest in largest]
    every = dict.fromkeys(name for one in settings_of for name in one)
    names = [name for name in every if len({json.dumps(one.get(name)) for one in settings_of}) > 1]
    names = ["profile"] if "profile" in names else names  # the profile includes the other differences
    found = []
    for rest, group in list(zip(settings_of, largest.values(), strict=True))[:MOST_SETS]:
        encoders = {run.settings.get(ENCODER) for same in group.values() for run in same}
        named = keys != (ENCODER,) and len(encoders) > 1
        points = [(json.loads(value), _joined(same, named)) for value, same in group.items()]
        points.sort(key=lambda point: _place(point[0]))
        where = {name: rest.get(name) for name in names}
        found.append(Study(keys, tuple(value for value, _ in points), tuple(run for _, run in points), where))
    return [study for study in found if study.has_line()]


def _joined(runs: Sequence[Run], named: bool) -> Run:
    """Joins runs that differ only in variants and encoder; if `named`, names of trained metrics include the encoder."""
    kendall: dict[Cell, float] = {}
    pearson: dict[Cell, float] = {}
    for run in runs:
        ending = f" from {run.settings.get(ENCODER)}" if named else ""
        for theirs, ours in ((run.kendall, kendall), (run.pearson, pearson)):
            for (corpus, aspect, metric), value in theirs.items():
                ours.setdefault((corpus, aspect, metric + (ending if metric.startswith(TRAINED) else "")), value)
    return Run(runs[0].name, runs[0].settings, kendall, pearson)


def _place(value: Any) -> tuple[int, float, str]:
    """Sorts numbers by size, then other values by their text, and null last, because it means all."""
    if isinstance(value, int | float):
        return 0, float(value), ""
    return (2 if value is None else 1), 0.0, json.dumps(value)
