"""Agreement with people on rated rows, as the stage evaluate measures it and as tables for the terminal."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.evaluate.agreement import agreement_rows, group_rows, left_out, measure
from pipeline.evaluate.differences import compare
from pipeline.report.views import STATISTICS, Benchmark, benchmarks
from pipeline.scoring import output
from pipeline.scoring.output import Format

Row = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """Bootstrap resamples and their confidence, permutations, the gap of DARR in points of 100, and the seed."""

    resamples: int
    permutations: int
    confidence: float
    darr_gap: float
    seed: int


def evaluate(rows: Sequence[Row], scores: dict[str, dict[str, float]], settings: Settings) -> Row:
    """Agreement, comparisons and what the averages leave out, as the stage evaluate finds them."""
    groups = group_rows(rows, scores)
    measured = measure(groups, settings.resamples, settings.darr_gap, settings.seed)
    significance = compare(
        groups,
        measured,
        permutations=settings.permutations,
        confidence=settings.confidence,
        seed=settings.seed,
    )
    reasons = [(group.corpus, group.aspect, group.language_pair, left_out(group)) for group in groups]
    return {
        "agreement": agreement_rows(measured, settings.confidence),
        "significance": significance,
        "left_out": [" ".join([*names, f"({reason})"]) for *names, reason in reasons if reason is not None],
    }


def render(found: Row, format: Format, width: int | None) -> str:
    """The findings as tables, all numbers times 100 but p-values."""
    confidence = f"{100 * found['settings']['confidence']:g}% interval"
    tables: list[tuple[str, list[Row]]] = []
    for mark in benchmarks(found["agreement"]):
        title = (
            f"{mark.corpus}, {mark.aspect}: agreement with people x 100, {mark.rows:,} rated segments ({confidence})"
        )
        tables.append((title, _averages(mark)))
        if len(mark.language_pairs) > 1:
            tables += [(f"{STATISTICS[name]} x 100 by language pair", _by_pair(mark, name)) for name in mark.cells]
        tables.append(("differences of the average, paired permutation test", _differences(mark, found)))
    notes = [f"left out of the averages: {text}" for text in found["left_out"]]
    notes += [f"{metric}: {text}" for metric, text in found["signatures"].items()]
    blocks = [f"{_note(title, format)}\n\n{output.table(rows, format, width)}" for title, rows in tables if rows]
    return "\n\n".join([*blocks, "\n".join(_note(note, format) for note in notes)])


def _averages(mark: Benchmark) -> list[Row]:
    return [
        {"metric": metric, **{STATISTICS[name]: _cell(mark, name, metric) for name in mark.cells}}
        for metric in mark.metrics
    ]


def _by_pair(mark: Benchmark, statistic: str) -> list[Row]:
    columns = {pair: mark.column(statistic, pair) for pair in mark.language_pairs}
    return [
        {"metric": metric, **{pair: cell.text if (cell := cells[place]) else "" for pair, cells in columns.items()}}
        for place, metric in enumerate(mark.metrics)
    ]


def _differences(mark: Benchmark, found: Row) -> list[Row]:
    values = {"difference": "Kendall x 100", "low": "low", "high": "high"}
    return [
        {
            "metric": one["metric"],
            "against": one["against"],
            **{title: None if one[key] is None else 100 * one[key] for key, title in values.items()},
            "p": one["p_value"],
        }
        for one in found["significance"]
        if (one["corpus"], one["aspect"]) == (mark.corpus, mark.aspect)
    ]


def _cell(mark: Benchmark, statistic: str, metric: str) -> str:
    cell = mark.average(statistic, metric)
    return "" if cell is None else f"{cell.text} ({cell.range})" if cell.range else cell.text


def _note(text: str, format: Format) -> str:
    return f"% {text}" if format is Format.LATEX else text


def without_nan(value: Any) -> Any:
    """The same with null where a number is undefined."""
    if isinstance(value, dict):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_nan(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value
