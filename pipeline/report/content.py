"""Everything that the page shows, ready to be put into the template: numbers as text, charts as markup."""

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from pipeline.evaluate.names import AVERAGE, NO_PAIR, TRAINED
from pipeline.report import figures, views
from pipeline.report.gather import Gathered, Training
from pipeline.report.samples import Histogram, percentiles, techniques, worst
from pipeline.report.views import Benchmark

Row = dict[str, Any]
Point = tuple[str, str, float, float]
"""Benchmark, language pair, human score, metric score."""

TREND_BINS = 10
COLOURS = 8
"""Classes s0 to s7 of the style sheet; more series share colours and differ by their tooltips."""


def page_content(
    found: Gathered,
    marks: Sequence[Benchmark],
    histograms: Sequence[Histogram],
    points: Sequence[Point],
    pairs: Path,
    worst_count: int,
    machine: dict[str, Any],
) -> dict[str, Any]:
    """The template's variables."""
    names = [views.signal_name(one.column, views.pivots(found)) for one in histograms]
    return {
        "found": found,
        "machine": machine,
        "demonstration": views.demonstration(found, marks),
        "settings": found.method.get("settings", {}),
        "signatures": found.method.get("signatures", {}),
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
        "duration": duration,
    }


def duration(seconds: float | None) -> str:
    """Seconds as people say them.

    >>> duration(75.4), duration(3700)
    ('1 min 15 s', '1 h 1 min')
    """
    if seconds is None:
        return "unknown"
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


def benchmark_name(benchmark: Benchmark) -> str:
    """Corpus and aspect."""
    return f"{benchmark.corpus}, {benchmark.aspect}"


def calibration_points(found: Gathered, marks: Sequence[Benchmark], limit: int) -> list[Point]:
    """Human and primary metric's scores of at most `limit` test rows a benchmark, evenly spaced over its rows."""
    points: list[Point] = []
    for benchmark in marks:
        rows = _rows(found, benchmark)
        scores = found.predictions.get(benchmark.primary or "", {})
        known = [row for row in rows if row["rating_id"] in scores]
        step = max(1, math.ceil(len(known) / limit))
        points += [
            (
                benchmark_name(benchmark),
                row["language_pair"] or NO_PAIR,
                round(row["score"], 6),
                round(scores[row["rating_id"]], 6),
            )
            for row in known[::step]
        ]
    return points


def _rows(found: Gathered, benchmark: Benchmark) -> list[Row]:
    wanted = (benchmark.corpus, benchmark.aspect)
    return [row for row in found.test_rows if (row["corpus"], row["aspect"]) == wanted]


def _benchmark(found: Gathered, benchmark: Benchmark, points: Sequence[Point], worst_count: int) -> Row:
    own = [(human, metric) for name, _, human, metric in points if name == benchmark_name(benchmark)]
    scores = found.predictions.get(benchmark.primary or "", {})
    places = percentiles(_rows(found, benchmark), scores) if scores else []
    return {
        "mark": benchmark,
        "name": benchmark_name(benchmark),
        "pairs": views.pairs_text(found, benchmark),
        "summary": views.summary(found, benchmark),
        "left_out": views.left_out(found, benchmark),
        "headline": _headline(benchmark),
        "statistics": [views.STATISTICS[name] for name in benchmark.cells],
        "gains": views.comparisons(found, benchmark, "without pre-training"),
        "rivals": views.comparisons(found, benchmark, "best baseline"),
        "tables": [pair_table(benchmark, statistic) for statistic in benchmark.cells],
        "bars": _bars(benchmark),
        "published": views.published(found, benchmark),
        "scatter": figures.scatter(own, trend(own), "Human score against metric score") if len(own) > 1 else None,
        "shown": len(own),
        "too_high": worst(places, worst_count, kind=True),
        "too_low": worst(places, worst_count, kind=False),
    }


def _headline(benchmark: Benchmark) -> list[Row]:
    """One row a metric, with the place of its Kendall interval on a common scale, in per cent of the cell's width."""
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
                "cells": [benchmark.average(statistic, metric) for statistic in benchmark.cells],
            }
        )
    return rows


def pair_table(benchmark: Benchmark, statistic: str) -> Row:
    """A statistic by metric and language pair; the best of each column is marked."""
    present = {pair for by_pair in benchmark.cells[statistic].values() for pair in by_pair}
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
        "name": views.STATISTICS[statistic],
        "open": statistic != "spearman",
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
    cell = benchmark.cells["kendall"][metric][pair]
    return None if math.isnan(cell.value + cell.low) else figures.Bar(cell.value, cell.low, cell.high)


def trend(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Mean human and mean metric score in bins of about equally many points, by rising human score.

    Points of one human score stay in one bin: cut apart by their metric scores, they would draw a line of their own.

    >>> trend([(1.0, 0.0), (2.0, 4.0), (2.0, 6.0)])
    [(1.0, 0.0), (2.0, 5.0)]
    """
    bins: dict[int, list[tuple[float, float]]] = {}
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
                variants.index(run.variant) % COLOURS,
                [(p["step"], sign * p[key]) for p in run.points if p.get(key) is not None],
            )
            for run in runs
        ]
        series = [one for one in series if one.points]
        if series:
            chart: Markup = figures.curves(series, f"{stage}: {name}", "training step")
            found.append(
                {"title": f"{stage}: {name}", "chart": chart, "legend": [(one.name, one.colour) for one in series]}
            )
    return found
