"""Tables beside the headline: agreement on systems, on segments with ties, and clusters of metrics."""

from collections.abc import Mapping
from typing import Any

from pipeline.core.records import AVERAGE, STATISTICS
from pipeline.report.gather import Gathered
from pipeline.report.views import Benchmark

Row = dict[str, Any]


def detail_table(benchmark: Benchmark, headings: Mapping[str, str]) -> Row | None:
    """Averages by metric and statistic, of the `headings` that were measured, or None; the best of each is marked."""
    names = benchmark.measured(headings)
    if not names:
        return None
    best = {name: benchmark.best(name, AVERAGE) for name in names}
    rows = []
    for metric in benchmark.metrics:
        cells = [(benchmark.average(name, metric), best[name]) for name in names]
        if any(cell is not None for cell, _ in cells):
            marked = [(cell, cell is not None and cell.value == highest) for cell, highest in cells]
            rows.append({"metric": metric, "primary": metric == benchmark.primary, "cells": marked})
    counts = [benchmark.counts(name, AVERAGE) for name in names]
    return {"columns": [headings[name] for name in names], "counts": counts, "rows": rows}


def cluster_table(found: Gathered, benchmark: Benchmark) -> Row | None:
    """The metrics of each cluster, best first, for each correlation; None without clusters.

    `columns` are headings; `rows` hold the cluster's number and its metrics as text, "" if there are fewer clusters.
    """
    mine = found.clusters[
        (found.clusters["corpus"] == benchmark.corpus) & (found.clusters["aspect"] == benchmark.aspect)
    ]
    if mine.empty:
        return None
    statistics = list(dict.fromkeys(mine["statistic"]))
    members = mine.groupby(["cluster", "statistic"], sort=False)["metric"].agg(", ".join)
    rows = [
        {"cluster": number, "metrics": [members.get((number, statistic), "") for statistic in statistics]}
        for number in range(1, int(mine["cluster"].max()) + 1)
    ]
    return {"columns": [STATISTICS[name] for name in statistics], "rows": rows}
