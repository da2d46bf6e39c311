"""Charts, tables and sentences of the page of studies.

The studies of the paper have sentences of their own and say how they differ from it. Any other setting that varied gets
a chart, and a sentence with each metric's numbers. All numbers are Kendall x 100 unless they say otherwise.
"""

import functools
import json
import math
import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.core.records import TRAINED, UNTRAINED
from pipeline.report.experiments import VARIANTS, Ablation, Cell, Study
from pipeline.report.figures import COLOURS, Bar, Series, bars, curves
from pipeline.report.page import signed

PRETRAINED = f"{TRAINED}all"
CHARACTER = 8
"""About how many pixels wide a letter under a bar is."""

RATINGS = "finetune.ratings"
"""The setting whose null means all."""

Line = list[tuple[Any, float]]
"""Value of the setting, Kendall x 100."""


@dataclass(frozen=True)
class Known:
    """A study of the paper: its heading, how ours differs, and what makes a sentence of the metrics' lines by name."""

    title: str
    differs: str
    conclude: Callable[[dict[str, Line]], str]


def seeds(lines: dict[str, Line]) -> str:
    """Mean and spread of each trained metric, and of the gain over the seeds that both were trained with."""
    parts = [
        f"{name} {_spread([y for _, y in line])} ({len(line)} seeds)"
        for name, line in lines.items()
        if name.startswith(TRAINED)
    ]
    ours, plain = dict(lines.get(PRETRAINED, [])), dict(lines.get(UNTRAINED, []))
    both = [ours[seed] - plain[seed] for seed in ours if seed in plain]
    gain = f" Pre-training changes it by {_spread(both, signed=True)} ({len(both)} seeds)." if both else ""
    return f"Mean ± standard deviation: {', '.join(parts)}.{gain}"


def _spread(values: Sequence[float], signed: bool = False) -> str:
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):{'+' if signed else ''}.1f} ± {deviation:.1f}".replace("-", "−")


def drift(lines: dict[str, Line]) -> str:
    """The share of its Kendall without drift that each metric keeps at the strongest drift that all have in common."""
    by_alpha = {name: dict(line) for name, line in lines.items()}
    common = set.intersection(*(set(line) for line in by_alpha.values())) if lines else set()
    strongest = max(common, default=0)
    kept = [
        f"{name} {100 * line[strongest] / line[0]:.0f}%".replace("-", "−")
        for name, line in by_alpha.items()
        if strongest > 0 and line.get(0, 0) > 0
    ]
    return f"At α = {strongest:g} of the Kendall without drift remain: {', '.join(kept)}." if kept else _span(lines)


def learning(lines: dict[str, Line]) -> str:
    """The gain of pre-training with the fewest and the most ratings, if both are known; and each metric's span."""
    ours, plain = dict(lines.get(PRETRAINED, [])), dict(lines.get(UNTRAINED, []))
    both = [x for x, _ in lines.get(PRETRAINED, []) if x in plain]
    if len(both) < 2:
        return _span(lines, RATINGS)
    gains = [
        f"{signed((ours[x] - plain[x]) / 100)} points with {spelled(x, RATINGS)} ratings" for x in (both[0], both[-1])
    ]
    return f"Pre-training changes Kendall by {gains[0]} and by {gains[1]}. {_span(lines, RATINGS)}"


def _span(lines: dict[str, Line], key: str = "") -> str:
    """What each trained metric has at the first value, at the last and at its best one."""
    parts = []
    for name, line in lines.items():
        if name.startswith(TRAINED):
            best = max(line, key=lambda point: point[1])
            first, last, top = (f"{y:.1f} at {spelled(x, key)}" for x, y in (line[0], line[-1], best))
            parts.append(f"{name} goes from {first} to {last} and is best with {top}")
    return "; ".join(parts) + "." if parts else "No trained metric."


def _listed(lines: dict[str, Line], key: str) -> str:
    """What each trained metric has at every value, the best first."""
    parts = [
        f"{name} {', '.join(f'{y:.1f} with {spelled(x, key)}' for x, y in sorted(line, key=lambda point: -point[1]))}"
        for name, line in lines.items()
        if name.startswith(TRAINED)
    ]
    return "; ".join(parts) + "." if parts else "No trained metric."


KNOWN: dict[str, Known] = {
    "finetune.schedule.seed": Known(
        "Seeds of fine-tuning",
        "The paper names no seeds. The seed changes the order of the ratings, dropout, and which ratings and graded "
        "candidates are drawn if not all take part. Pre-training is one run.",
        seeds,
    ),
    "collect.drift.train_alpha": Known(
        "Quality drift (paper, figures 1 and 2)",
        "The paper crosses the drift of training and test ratings; here both have the same α. Bins are the paper's.",
        drift,
    ),
    RATINGS: Known(
        "Learning curve (number of ratings)",
        "The seed draws the ratings, a smaller number from a larger one. The steps stay the same, so few ratings are "
        "seen more often. On the axis, all ratings stand at twice the largest number.",
        learning,
    ),
    "pretrain.schedule.steps": Known(
        "Steps of pre-training (paper, figure 5)",
        "Each point is a run of its own, whose learning rate falls to zero. The paper's are checkpoints of one run.",
        _span,
    ),
    "collect.corpora.N.test_fraction": Known(
        "Share of a corpus's ratings that test (for WebNLG: paper, figure 3)",
        "The other ratings train and validate, in the paper at most about half. Each point has its own test rows.",
        _span,
    ),
}
"""By setting; N is any place in a list."""


def known_study(study: Study) -> Known | None:
    """The paper's study of the same setting; None if it has none."""
    return KNOWN.get(re.sub(r"\.\d+(?=\.|$)", ".N", study.keys[0]))


def spelled(value: Any, key: str = "") -> str:
    """The value of the setting `key` as params.yaml writes it, whole numbers with commas; null ratings are "all".

    >>> spelled(2040), spelled(None), spelled(True), spelled(None, RATINGS)
    ('2,040', 'null', 'true', 'all')
    """
    if value is None and key == RATINGS:
        return "all"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def charts(study: Study) -> list[dict[str, Any]]:
    """For every corpus and aspect of the study: heading, chart, table and sentence."""
    cells = list(dict.fromkeys(cell for run in study.runs for cell in run.kendall))
    made = []
    for corpus, aspect in dict.fromkeys((corpus, aspect) for corpus, aspect, _ in cells):
        names = [metric for one, other, metric in cells if (one, other) == (corpus, aspect)]
        names.sort(key=lambda name: (not name.startswith(TRAINED), name))
        lines = {name: line for name in names if len(line := study.line((corpus, aspect, name))) > 1}
        if lines:
            made.append(_chart(study, corpus, aspect, lines))
    return made


def _chart(study: Study, corpus: str, aspect: str, lines: dict[str, Line]) -> dict[str, Any]:
    known, key = known_study(study), study.keys[0]
    conclude = known.conclude if known else functools.partial(_span if measures(study.values) else _listed, key=key)
    columns = [spelled(value, key) for value in study.values]
    title = f"Kendall against {' and '.join(study.keys)}, {corpus}, {aspect}"
    if measures(study.values):
        places = _places(study.values, key)
        series = [
            Series(name, i % COLOURS, [(places[spelled(x, key)], y) for x, y in line])
            for i, (name, line) in enumerate(lines.items())
        ]
        chart = curves(series, title, key.rsplit(".", 1)[-1])
    else:
        known_at = [{spelled(x, key): Bar(y, y, y) for x, y in line} for line in lines.values()]
        room = max(140, CHARACTER * max(map(len, columns)))
        chart = bars(columns, [[one.get(column) for column in columns] for one in known_at], title, room)
    return {
        "heading": f"{corpus}, {aspect}",
        "sentence": conclude(lines),
        "chart": chart,
        "caption": "Kendall τ-b × 100",
        "legend": [(name, i % COLOURS) for i, name in enumerate(lines)],
        "columns": columns,
        "rows": [(name, _cells(study, (corpus, aspect, name))) for name in lines],
    }


def measures(values: Sequence[Any]) -> bool:
    """Whether all values of a setting are numbers or null, so that they have places on an axis.

    >>> measures([510, 1020, None]), measures(["by_input", "by_system"]), measures([True, False])
    (True, False, False)
    """
    return all(value is None or (isinstance(value, int | float) and not isinstance(value, bool)) for value in values)


def _places(values: Sequence[Any], key: str) -> dict[str, float]:
    """Each value's place on the axis: a number's is itself, null's is twice that of the largest number."""
    places, last = dict[str, float](), 1.0
    for value in values:
        last = 2 * last if value is None else float(value)
        places[spelled(value, key)] = last
    return places


def _cells(study: Study, cell: Cell) -> list[str]:
    """Kendall / Pearson of one metric in every run; empty where a run lacks it."""
    return [
        f"{run.kendall[cell]:.1f} / {run.pearson.get(cell, math.nan):.1f}" if cell in run.kendall else ""
        for run in study.runs
    ]


def ablated(lines: dict[str, tuple[float, float]]) -> str:
    """What each signal gains by itself over no pre-training, and what Kendall changes by if it is left out."""
    parts = []
    for prefix, base, verb in (("only_", UNTRAINED, "alone, over no pre-training"), ("no_", PRETRAINED, "left out")):
        changes = {
            name.removeprefix(TRAINED + prefix): value - lines[base][0]
            for name, (value, _) in lines.items()
            if base in lines and name.startswith(TRAINED + prefix)
        }
        ordered = sorted(changes.items(), key=lambda change: -abs(change[1]))
        if ordered:
            parts.append(f"{verb}: {', '.join(f'{group} {signed(change / 100)}' for group, change in ordered)}")
    text = "; ".join(parts)
    missing = " and ".join(name for name in (UNTRAINED, PRETRAINED) if name not in lines)
    return f"{text[0].upper()}{text[1:]}." if text else f"No {missing} was run to compare with."


def ablation_section(found: Ablation) -> dict[str, Any]:
    """Text, charts and tables of the section: what each variant gains over no pre-training."""
    made = []
    for corpus, aspect in dict.fromkeys((cell[0], cell[1]) for run in found.runs.values() for cell in run.kendall):
        lines = found.line(corpus, aspect)
        names = sorted(lines, key=lambda name: -lines[name][0])
        start = lines[UNTRAINED][0] if UNTRAINED in lines else 0.0
        gains = [lines[name][0] - start for name in names if name != UNTRAINED]
        shown = [name.removeprefix(TRAINED) for name in names if name != UNTRAINED]
        if not shown:
            continue
        made.append(
            {
                "heading": f"{corpus}, {aspect}",
                "sentence": ablated(lines),
                "chart": bars(shown, [[Bar(x, x, x) for x in gains]], f"Gain by variant, {corpus}, {aspect}", room=140),
                "caption": "Kendall τ-b × 100 above no pre-training" if UNTRAINED in lines else "Kendall τ-b × 100",
                "legend": [],
                "columns": [name.removeprefix(TRAINED) for name in names],
                "rows": [("Kendall / Pearson", [f"{lines[name][0]:.1f} / {lines[name][1]:.1f}" for name in names])],
            }
        )
    return {
        "title": "Ablations: which signals pre-training needs (paper, figure 4)",
        "differs": "Each variant is a pre-training of its own; fine-tuning is the same for all.",
        "setting": VARIANTS,
        "charts": made,
    }
