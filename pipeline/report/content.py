"""Everything that the page shows, ready for the template: numbers as text, charts as markup."""

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas

from pipeline.core.records import AVERAGE, STATISTICS, SYSTEM_LEVEL, TRAINED, WITH_TIES
from pipeline.report import figures, views
from pipeline.report.details import cluster_table, detail_table
from pipeline.report.gather import Gathered, Training
from pipeline.report.samples import Histogram, places, techniques, worst
from pipeline.report.views import Benchmark

Row = dict[str, Any]
Point = tuple[float, float]
"""Human score, metric score."""

TREND_BINS = 10
"""Most points in the trend line of a scatter."""


def page_content(
    found: Gathered,
    marks: Sequence[Benchmark],
    histograms: Sequence[Histogram],
    points: pandas.DataFrame,
    pairs: Path,
    worst_count: int,
) -> Row:
    """The variables of the template `report`."""
    names = [views.signal_name(one.column, views.pivots(found)) for one in histograms]
    return {
        "found": found,
        "demonstration": views.demonstration(found, marks),
        "settings": found.method.get("settings", {}),
        "signatures": found.method.get("signatures", {}),
        "not_scored": found.method.get("not_scored", []),
        "corrected": bool(found.significance) and all("p_value_holm" in record for record in found.significance),
        "benchmarks": [_benchmark(found, mark, points, worst_count) for mark in marks],
        "techniques": techniques(pairs),
        "signals": [
            {
                "histogram": one,
                "name": name,
                "chart": figures.histogram(one.edges, one.shares, f"Distribution of {name}"),
            }
            for one, name in zip(histograms, names, strict=True)
        ],
        "curves": [chart for stage in ("pretrain", "finetune") for chart in _curves(found.trainings, stage)],
    }


def benchmark_name(benchmark: Benchmark) -> str:
    """Corpus and aspect."""
    return f"{benchmark.corpus}, {benchmark.aspect}"


def calibration_points(found: Gathered, marks: Sequence[Benchmark], limit: int) -> pandas.DataFrame:
    """Human score and the primary metric's of at most `limit` test rows a benchmark, evenly spaced over its rows.

    Columns corpus (with the aspect), language_pair, human, metric; scores rounded to six digits.
    """
    columns = ["corpus", "language_pair", "human", "metric"]
    parts = [pandas.DataFrame(columns=columns)]
    for benchmark in marks:
        rated = _rated(found, benchmark).assign(corpus=benchmark_name(benchmark))
        step = max(1, math.ceil(len(rated) / limit))
        parts += [rated[columns].iloc[::step].round(6)] if len(rated) else []
    return pandas.concat(parts[1:] or parts)


def _rated(found: Gathered, benchmark: Benchmark) -> pandas.DataFrame:
    """The benchmark's test rows that its primary metric scored: `human` and `metric` hold the scores."""
    test = found.test_rows
    rows = test[(test["corpus"] == benchmark.corpus) & (test["aspect"] == benchmark.aspect)]
    if benchmark.primary not in found.predictions.columns:
        return rows[:0].assign(human=0.0, metric=0.0)
    scores = found.predictions[benchmark.primary]
    rated = rows.rename(columns={"score": "human"}).assign(metric=rows["rating_id"].map(scores))
    return rated.dropna(subset="metric")


def _benchmark(found: Gathered, benchmark: Benchmark, points: pandas.DataFrame, worst_count: int) -> Row:
    shown = points[points["corpus"] == benchmark_name(benchmark)]
    own: list[Point] = list(zip(shown["human"], shown["metric"], strict=True))
    placed = places(_rated(found, benchmark))
    return {
        "mark": benchmark,
        "name": benchmark_name(benchmark),
        "pairs": views.pairs_text(found, benchmark),
        "summary": views.summary(found, benchmark),
        "left_out": views.left_out(found, benchmark),
        "headline": _headline(benchmark),
        "of_systems": any(name.startswith("system_") for name in benchmark.statistics),
        "system_ratings": benchmark.corpus in found.method.get("system_ratings", []),
        "systems_left_out": views.left_out(found, benchmark, "systems_left_out"),
        "systems": detail_table(benchmark, SYSTEM_LEVEL),
        "with_ties": detail_table(benchmark, WITH_TIES),
        "detailed": [pair_table(benchmark, name) for name in benchmark.measured(SYSTEM_LEVEL | WITH_TIES)],
        "clusters": cluster_table(found, benchmark),
        "statistics": [STATISTICS[name] for name in benchmark.statistics],
        "gains": views.comparisons(found, benchmark, "without pre-training"),
        "rivals": views.comparisons(found, benchmark, "best baseline"),
        "tables": [pair_table(benchmark, statistic) for statistic in benchmark.statistics],
        "bars": _bars(benchmark),
        "published": views.published(found, benchmark),
        "scatter": figures.scatter(own, trend(own), "Human score against metric score") if len(own) > 1 else None,
        "shown": len(own),
        "too_high": worst(placed, worst_count, kind=True),
        "too_low": worst(placed, worst_count, kind=False),
    }


def _headline(benchmark: Benchmark) -> list[Row]:
    """One row for each metric, with its Kendall interval on a common scale, in per cent of the cell's width."""
    cells = [benchmark.average("kendall", metric) for metric in benchmark.metrics]
    known = [cell for cell in cells if cell is not None and not math.isnan(cell.low)]
    low = min((cell.low for cell in known), default=0.0)
    span = max((cell.high for cell in known), default=1.0) - low or 1.0
    rows = []
    for metric, cell in zip(benchmark.metrics, cells, strict=True):
        drawn = None
        if cell is not None and not (math.isnan(cell.low) or math.isnan(cell.value)):
            start, stop, dot = (round(100 * (x - low) / span, 1) for x in (cell.low, cell.high, cell.value))
            drawn = {"start": start, "width": round(stop - start, 1), "dot": dot}
        rows.append(
            {
                "metric": metric,
                "trained": metric.startswith(TRAINED),
                "primary": metric == benchmark.primary,
                "drawn": drawn,
                "cells": [benchmark.average(statistic, metric) for statistic in benchmark.statistics],
            }
        )
    return rows


def pair_table(benchmark: Benchmark, statistic: str) -> Row:
    """A statistic by metric and language pair; the best of each column is marked."""
    present = set(benchmark.numbers.loc[statistic].index.get_level_values("language_pair"))
    columns = [pair for pair in (*benchmark.language_pairs, AVERAGE) if pair in present]
    best = {pair: benchmark.best(statistic, pair) for pair in columns}
    counts = {pair: benchmark.counts(statistic, pair) for pair in columns}
    cells = [
        [(cell, cell is not None and cell.value == best[pair]) for cell in benchmark.column(statistic, pair)]
        for pair in columns
    ]
    rows = [
        {"metric": metric, "primary": metric == benchmark.primary, "cells": row}
        for metric, row in zip(benchmark.metrics, zip(*cells, strict=True), strict=True)
    ]
    return {
        "name": STATISTICS[statistic],
        "open": statistic in benchmark.statistics and statistic != "spearman",
        "columns": columns,
        "counts": counts,
        "rows": rows,
    }


def _bars(benchmark: Benchmark) -> Row:
    chosen = views.chosen_metrics(benchmark)
    series = [[_bar(benchmark, metric, pair) for pair in benchmark.language_pairs] for metric in chosen]
    chart = figures.bars(benchmark.language_pairs, series, "Kendall by language pair") if chosen else None
    return {"chart": chart, "legend": [(name, colour) for colour, name in enumerate(chosen)]}


def _bar(benchmark: Benchmark, metric: str, pair: str) -> figures.Bar | None:
    cell = benchmark.cell("kendall", metric, pair)
    return None if cell is None or math.isnan(cell.value + cell.low) else figures.Bar(cell.value, cell.low, cell.high)


def trend(points: Sequence[Point]) -> list[Point]:
    """Mean human and mean metric score in bins of about equally many points, by rising human score.

    Points of one human score stay in one bin. If their metric scores divided them, they would draw a line of their own.

    >>> trend([(1.0, 0.0), (2.0, 4.0), (2.0, 6.0)])
    [(1.0, 0.0), (2.0, 5.0)]
    """
    bins: dict[int, list[Point]] = {}
    before = 0
    for _, found in itertools.groupby(sorted(points), key=lambda point: point[0]):
        same = list(found)
        middle = before + len(same) / 2
        bins.setdefault(int(TREND_BINS * middle / len(points)), []).extend(same)
        before += len(same)
    return [(sum(p[0] for p in one) / len(one), sum(p[1] for p in one) / len(one)) for one in bins.values()]


def _curves(trainings: Sequence[Training], stage: str) -> list[Row]:
    """Charts of a stage: training loss, and what its validation measures."""
    runs = [run for run in trainings if run.stage == stage and run.points]
    variants = sorted({run.variant for run in trainings})  # a variant keeps its colour from chart to chart
    validation = ("validation loss", -1.0) if stage == "pretrain" else ("validation Kendall", 1.0)
    charts = [("loss", "training loss", 1.0), ("validation", *validation)]
    found = []
    for key, name, sign in charts:
        series = [
            figures.Series(
                run.variant,
                variants.index(run.variant) % figures.COLOURS,
                [(p["step"], sign * p[key]) for p in run.points if p.get(key) is not None],
            )
            for run in runs
        ]
        series = [one for one in series if one.points]
        if series:
            chart = figures.curves(series, f"{stage}: {name}", "training step")
            found.append(
                {"title": f"{stage}: {name}", "chart": chart, "legend": [(one.name, one.colour) for one in series]}
            )
    return found
