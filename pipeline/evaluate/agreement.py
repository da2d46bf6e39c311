"""Agreement of every metric with people, by language pair and on average, with bootstrap intervals.

The human side is `score` (the standardised rating where known) for Kendall, Pearson and Spearman, and points of 100 for
DARR, as WMT does. The average is the mean over language pairs, each weighing the same; one on which people say nothing
(`left_out`) is not among them, for any metric. Every metric meets the same resamples, so that differences between
metrics can be tested on them.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from pipeline.core.seeds import generator
from pipeline.evaluate.names import AVERAGE, NO_PAIR
from pipeline.statistics import correlation, resampling
from pipeline.statistics.correlation import Vector
from pipeline.statistics.metric_tests import interval

CORRELATIONS = {
    "kendall": (correlation.kendall, resampling.weighted_kendall),
    "pearson": (correlation.pearson, resampling.weighted_pearson),
    "spearman": (correlation.spearman, resampling.weighted_spearman),
}


@dataclass(frozen=True)
class Group:
    """Test rows of one corpus, aspect and language pair; every vector is (rows,).

    `points`: raw ratings from 0 to 100, NaN where unknown; of an output that was judged several times, its first row
    has the mean and the others NaN. `year`: of the WMT campaign, None where there is none.
    """

    corpus: str
    aspect: str
    language_pair: str
    year: int | None
    human: Vector
    points: Vector
    segments: numpy.ndarray
    scores: dict[str, Vector]


@dataclass(frozen=True)
class Key:
    """What a measurement is of."""

    corpus: str
    aspect: str
    metric: str
    language_pair: str
    statistic: str


@dataclass(frozen=True)
class Measured:
    """A statistic's value, its values on every resample (resamples,), and what it was counted on."""

    value: float
    resamples: Vector
    count: int


Measurements = dict[Key, Measured]


def group_rows(rows: Sequence[dict[str, Any]], scores: dict[str, dict[str, float]]) -> list[Group]:
    """Test rows by (corpus, aspect, language pair), sorted; `scores` maps metric -> rating_id -> score.

    A metric takes part in the corpora of which it scored every row.
    """
    found: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    lacking: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault((row["corpus"], row["aspect"], row["language_pair"] or NO_PAIR), []).append(row)
        lacking.setdefault(row["corpus"], set()).update(
            m for m, known in scores.items() if row["rating_id"] not in known
        )
    return [
        _group(key, members, {metric: known for metric, known in scores.items() if metric not in lacking[key[0]]})
        for key, members in sorted(found.items())
    ]


def _group(key: tuple[str, str, str], rows: list[dict[str, Any]], scores: dict[str, dict[str, float]]) -> Group:
    names = [(row["segment"] or "", row["reference"]) for row in rows]
    numbers = {name: number for number, name in enumerate(sorted(set(names)))}
    outputs = [(*name, row["system"] or "", row["candidate"]) for name, row in zip(names, rows, strict=True)]
    output_numbers = {output: number for number, output in enumerate(sorted(set(outputs)))}
    points = numpy.array([_points(row) for row in rows], dtype=numpy.float64)
    years = {row["year"] for row in rows}
    assert len(years) == 1, "collect holds a test corpus to one year"
    return Group(
        *key,
        year=years.pop(),
        human=numpy.array([row["score"] for row in rows], dtype=numpy.float64),
        points=correlation.judged_once(points, numpy.array([output_numbers[output] for output in outputs])),
        segments=numpy.array([numbers[name] for name in names]),
        scores={
            metric: numpy.array([by_row[row["rating_id"]] for row in rows], dtype=numpy.float64)
            for metric, by_row in scores.items()
        },
    )


def _points(row: dict[str, Any]) -> float:
    """The raw rating from 0 to 100: WMT's as it is, own ones from their scale (rounded: 55 is no 55.00000000000001)."""
    if row["raw"] is None:
        return numpy.nan
    return float(row["raw"]) if row["z"] is not None else round(100 * row["score"], 9)


def darr_rule(year: int | None, gap: float) -> tuple[float, bool]:
    """The gap and whether a metric's ties count: before WMT18 any difference counted and ties were left out."""
    return (0.0, False) if year is not None and year < 2018 else (gap, True)


def left_out(group: Group) -> str | None:
    """Why the group is not averaged: people's ratings on it define no correlation with anything; None if they do."""
    if _one_segment(group):
        return "fewer than two rated segments"
    return "all human ratings are equal" if numpy.ptp(group.human) == 0 else None


def _one_segment(group: Group) -> bool:
    return len(numpy.unique(group.segments)) < 2


def measure(groups: Sequence[Group], resamples: int, darr_gap: float, seed: int) -> Measurements:
    """All statistics of all metrics on all groups, and their averages over language pairs (see `left_out`)."""
    found: Measurements = {}
    for group in groups:
        scope = ("evaluate", group.corpus, group.aspect, group.language_pair)
        weights = resampling.segment_weights(group.segments, resamples, generator(seed, *scope))
        for metric, scores in group.scores.items():
            for statistic, measured in _measure_metric(group, scores, weights, darr_gap).items():
                found[Key(group.corpus, group.aspect, metric, group.language_pair, statistic)] = measured
    averaged = {(group.corpus, group.aspect, group.language_pair) for group in groups if left_out(group) is None}
    return found | _averages(found, averaged)


def _measure_metric(group: Group, scores: Vector, weights: resampling.Weights, darr_gap: float) -> dict[str, Measured]:
    found = {
        name: Measured(exact(group.human, scores), weighted(group.human, scores, weights), len(scores))
        for name, (exact, weighted) in CORRELATIONS.items()
    }
    gap, ties_count = darr_rule(group.year, darr_gap)
    pairs = correlation.darr_pairs(group.points, group.segments, gap)
    if len(pairs.better):
        value = correlation.darr(group.points, scores, group.segments, gap=gap, ties_count=ties_count)
        outcomes = correlation.darr_outcomes(pairs, scores, ties_count)
        found["darr"] = Measured(value.value, resampling.weighted_darr(pairs, outcomes, weights), value.pairs)
    if _one_segment(group):  # every resample is the same one, which says nothing
        nothing = numpy.full(len(weights), numpy.nan)
        found = {name: dataclasses.replace(measured, resamples=nothing) for name, measured in found.items()}
    return found


def _averages(found: Measurements, averaged: set[tuple[str, str, str]]) -> Measurements:
    """Means over the `averaged` (corpus, aspect, language pair); undefined where the statistic is so on one of them."""
    members: dict[Key, list[Measured]] = {}
    for key, measured in found.items():
        average = Key(key.corpus, key.aspect, key.metric, AVERAGE, key.statistic)
        ones = members.setdefault(average, [])
        if (key.corpus, key.aspect, key.language_pair) in averaged:
            ones.append(measured)
    resamples = max((len(measured.resamples) for measured in found.values()), default=0)
    return {key: _mean(ones, resamples) for key, ones in members.items()}


def _mean(ones: Sequence[Measured], resamples: int) -> Measured:
    if not ones:
        return Measured(numpy.nan, numpy.full(resamples, numpy.nan), 0)
    return Measured(
        float(numpy.mean([one.value for one in ones])),
        numpy.mean([one.resamples for one in ones], axis=0),
        sum(one.count for one in ones),
    )


def agreement_rows(measurements: Measurements, confidence: float) -> list[dict[str, Any]]:
    """Rows of the AGREEMENT schema, in the order of `measurements`; rounded to 9 digits, below any meaning."""
    rows = []
    for key, measured in measurements.items():
        bounds = interval(measured.resamples, confidence)
        rows.append(
            {
                "corpus": key.corpus,
                "aspect": key.aspect,
                "metric": key.metric,
                "language_pair": key.language_pair,
                "statistic": key.statistic,
                "value": round(measured.value, 9),
                "low": round(bounds.low, 9),
                "high": round(bounds.high, 9),
                "count": measured.count,
            }
        )
    return rows
