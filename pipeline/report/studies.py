"""One page of all DVC experiments that differ in one setting: chart, table and a sentence for each study.

    dvc exp show --json | python -m pipeline.report.studies --out reports/studies

Writes OUT/studies.html (self-contained, opens offline) and OUT/studies.csv, every point of every chart. The studies of
the paper have sentences of their own and say how they differ from it; any other setting that varied gets a chart too.
"""

import argparse
import functools
import json
import math
import re
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.core.errors import InputError
from pipeline.core.runtime import run_main
from pipeline.evaluate.names import TRAINED, UNTRAINED
from pipeline.report.experiments import VARIANTS, Ablation, Cell, Run, Study, ablation, read_runs, studies
from pipeline.report.export import write_csv, write_text
from pipeline.report.figures import COLOURS, Bar, Series, bars, curves
from pipeline.report.page import render, signed

PRETRAINED = f"{TRAINED}all"
CHARACTER = 8
"""Pixels of a letter under a bar, about."""

RATINGS = "finetune.ratings"
"""Whose null means all."""

Line = list[tuple[Any, float]]
"""Value of the setting, Kendall x 100."""


@dataclass(frozen=True)
class Known:
    """A study of the paper: its heading, how this one differs, and a sentence from the metrics' lines by name."""

    title: str
    differs: str
    conclude: Callable[[dict[str, Line]], str]


def seeds(lines: dict[str, Line]) -> str:
    """Mean and spread of each trained metric, and of the gain where both were trained with the same seeds."""
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
    """The share of the undrifted Kendall that each metric keeps at the strongest drift that all were measured at."""
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
    """The gain of pre-training with the fewest and the most ratings, else each metric's span."""
    ours, plain = dict(lines.get(PRETRAINED, [])), dict(lines.get(UNTRAINED, []))
    both = [x for x, _ in lines.get(PRETRAINED, []) if x in plain]
    if len(both) < 2:
        return _span(lines, RATINGS)
    gains = [
        f"{signed((ours[x] - plain[x]) / 100)} points with {_words(x, RATINGS)} ratings" for x in (both[0], both[-1])
    ]
    return f"Pre-training changes Kendall by {gains[0]} and by {gains[1]}. {_span(lines, RATINGS)}"


def _span(lines: dict[str, Line], key: str = "") -> str:
    """Where each trained metric starts, ends and is best."""
    parts = []
    for name, line in lines.items():
        if name.startswith(TRAINED):
            best = max(line, key=lambda point: point[1])
            first, last, top = (f"{y:.1f} at {_words(x, key)}" for x, y in (line[0], line[-1], best))
            parts.append(f"{name} goes from {first} to {last} and is best with {top}")
    return "; ".join(parts) + "." if parts else "No trained metric."


def _listed(lines: dict[str, Line], key: str) -> str:
    """Each trained metric at every value, the best first."""
    parts = [
        f"{name} {', '.join(f'{y:.1f} with {_words(x, key)}' for x, y in sorted(line, key=lambda point: -point[1]))}"
        for name, line in lines.items()
        if name.startswith(TRAINED)
    ]
    return "; ".join(parts) + "." if parts else "No trained metric."


KNOWN: dict[str, Known] = {
    "finetune.schedule.seed": Known(
        "Seeds of fine-tuning",
        "The paper names no seeds. The seed changes the order of the ratings, dropout, and what is drawn of ratings "
        "and graded candidates where not all take part; pre-training is one run.",
        seeds,
    ),
    "collect.drift.train_alpha": Known(
        "Quality drift (paper, figures 1 and 2)",
        "The paper crosses the drift of training and test ratings; here both have the same α. Bins are the paper's.",
        drift,
    ),
    RATINGS: Known(
        "Learning curve (number of ratings)",
        "The ratings are drawn by the seed, a smaller number from the larger; steps stay the same, so few ratings are "
        "seen more often. All ratings stand at twice the largest number.",
        learning,
    ),
    "pretrain.schedule.steps": Known(
        "Steps of pre-training (paper, figure 5)",
        "Each point is a run of its own, whose rate decays to zero; the paper's are checkpoints of one run.",
        _span,
    ),
    "collect.corpora.N.test_fraction": Known(
        "Share of a corpus's ratings that test (for WebNLG: paper, figure 3)",
        "The other ratings train and validate, none to about half of them in the paper; each has its own test rows.",
        _span,
    ),
}
"""By setting, N for any place in a list."""


def _known(study: Study) -> Known | None:
    return KNOWN.get(re.sub(r"\.\d+(?=\.|$)", ".N", study.keys[0]))


def _words(value: Any, key: str = "") -> str:
    """The value of the setting `key` as params.yaml has it, whole numbers with commas; no limit is "all".

    >>> _words(2040), _words(None), _words(True), _words(None, RATINGS)
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
    known, key = _known(study), study.keys[0]
    conclude = known.conclude if known else functools.partial(_span if measures(study.values) else _listed, key=key)
    columns = [_words(value, key) for value in study.values]
    title = f"Kendall against {' and '.join(study.keys)}, {corpus}, {aspect}"
    if measures(study.values):
        places = _places(study.values, key)
        series = [
            Series(name, i % COLOURS, [(places[_words(x, key)], y) for x, y in line])
            for i, (name, line) in enumerate(lines.items())
        ]
        chart = curves(series, title, key.rsplit(".", 1)[-1])
    else:
        known_at = [{_words(x, key): Bar(y, y, y) for x, y in line} for line in lines.values()]
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
    """Whether all values of a setting are numbers, or null, so that they have places on an axis; names have none.

    >>> measures([510, 1020, None]), measures(["by_input", "by_system"]), measures([True, False])
    (True, False, False)
    """
    return all(value is None or (isinstance(value, int | float) and not isinstance(value, bool)) for value in values)


def _places(values: Sequence[Any], key: str) -> dict[str, float]:
    """Where each value stands on the axis: numbers at themselves, null twice as far as the largest of them."""
    places, last = dict[str, float](), 1.0
    for value in values:
        last = 2 * last if value is None else float(value)
        places[_words(value, key)] = last
    return places


def _cells(study: Study, cell: Cell) -> list[str]:
    """Kendall / Pearson of one metric in every run; empty where a run lacks it."""
    return [
        f"{run.kendall[cell]:.1f} / {run.pearson.get(cell, math.nan):.1f}" if cell in run.kendall else ""
        for run in study.runs
    ]


def ablated(lines: dict[str, tuple[float, float]]) -> str:
    """The signal groups by what each gains alone over no pre-training, and by what it costs to leave each out."""
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
    return f"{text[0].upper()}{text[1:]}." if text else f"No {missing} was run beside them."


def ablation_section(found: Ablation) -> dict[str, Any]:
    """The section's text, charts and tables: what each variant gains over no pre-training."""
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


TEMPLATE = """
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>Studies</title><style>{{ style }}</style></head><body>
<header><p class="eyebrow">Learned metric · agreement with people</p><h1>Studies</h1>
<p class="dim">{{ runs }} experiments. Each study sets side by side those that differ in one setting alone. Numbers are
Kendall τ-b and Pearson r × 100, averages over language pairs.</p></header>
<main>
{% for study in studies %}<section><h2>{{ study.title }}</h2>
<p class="note">{{ study.differs }} Setting: <code>{{ study.setting }}</code>.</p>
{% for c in study.charts %}<h3>{{ c.heading }}</h3><p class="lead">{{ c.sentence }}</p>
<figure class="half"><ul class="legend">{% for name, colour in c.legend %}<li><i class="s{{ colour }}"></i>
{{ name }}</li>{% endfor %}</ul>{{ c.chart }}<figcaption>{{ c.caption }}</figcaption></figure>
<div class="scroll"><table><thead><tr><th>Kendall / Pearson × 100</th>{% for v in c.columns %}<th class="n">{{ v }}</th>
{% endfor %}</tr></thead><tbody>{% for name, cells in c.rows %}<tr><th>{{ name }}</th>
{% for text in cells %}<td class="n">{{ text }}</td>{% endfor %}</tr>{% endfor %}</tbody></table></div>
{% endfor %}</section>
{% else %}<section><p>No two experiments differ in one setting alone.</p></section>
{% endfor %}</main></body></html>
"""


def page(runs: Sequence[Run], found: Sequence[Study], ablations: Ablation | None = None) -> str:
    """The page as HTML."""
    shown = [ablation_section(ablations)] if ablations else []
    for study in found:
        known = _known(study)
        shown.append(
            {
                "title": known.title if known else study.keys[0],
                "differs": known.differs if known else "",
                "setting": ", ".join(
                    [*study.keys, *(f"{key}={_words(value, key)}" for key, value in study.where.items())]
                ),
                "charts": charts(study),
            }
        )
    return render({"runs": len(runs), "studies": shown}, TEMPLATE)


def main() -> None:
    """Parse the command line, read the experiments, write page and points."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", type=Path, help="output of dvc exp show --json; default: standard input")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    write_studies(arguments.experiments, arguments.out)


def write_studies(experiments: Path | None, out: Path) -> None:
    """Read the file `experiments`, or standard input, and write page and points to the folder `out`."""
    runs = read_runs(*_text(experiments))
    found, ablations = studies(runs), ablation(runs)
    rows: list[tuple[Any, ...]] = [
        (
            " ".join([*study.keys, *(f"{key}={_words(value, key)}" for key, value in study.where.items())]),
            _words(value, study.keys[0]) if value is None else value,
            *cell,
            round(kendall, 4),
            round(run.pearson.get(cell, math.nan), 4),
        )
        for study in found
        for value, run in zip(study.values, study.runs, strict=True)
        for cell, kendall in run.kendall.items()
    ]
    if ablations:
        rows += [
            (
                VARIANTS,
                cell[2].removeprefix(TRAINED),
                *cell,
                round(run.kendall[cell], 4),
                round(run.pearson.get(cell, math.nan), 4),
            )
            for name, run in ablations.runs.items()
            for cell in run.kendall
            if cell[2] == name
        ]
    header = ("setting", "value", "corpus", "aspect", "metric", "kendall", "pearson")
    write_csv(out / "studies.csv", header, rows)
    write_text(out / "studies.html", page(runs, found, ablations))
    print(f"studies: {len(runs)} experiments, {len(found) + bool(ablations)} studies: {out / 'studies.html'}")


def _text(file: Path | None) -> tuple[str, str]:
    """What `file` or standard input holds, and its name."""
    if file is None:
        return sys.stdin.read(), "standard input"
    try:
        return file.read_text(encoding="utf-8"), str(file)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("cannot be read as text", file=file) from error


if __name__ == "__main__":
    run_main(main)
