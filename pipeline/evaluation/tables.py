"""Agreement of every metric with people, by language pair and on average, with bootstrap intervals.

The human side is `score` (the standardised rating where known) for Kendall, Pearson and Spearman, and `raw` for DARR,
as WMT does. The average is the mean over language pairs, each weighing the same. Every metric meets the same
resamples, so that differences between metrics can be tested on them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from pipeline.core.seeds import generator
from pipeline.evaluation import correlation, resampling
from pipeline.evaluation.correlation import Vector
from pipeline.evaluation.names import AVERAGE, NO_PAIR
from pipeline.evaluation.significance import interval

CORRELATIONS = {
    "kendall": (correlation.kendall, resampling.weighted_kendall),
    "pearson": (correlation.pearson, resampling.weighted_pearson),
    "spearman": (correlation.spearman, resampling.weighted_spearman),
}


@dataclass(frozen=True)
class Group:
    """Test rows of one corpus, aspect and language pair; every vector is (rows,), `raw` is NaN where unknown."""

    corpus: str
    aspect: str
    language_pair: str
    human: Vector
    raw: Vector
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
    """Test rows by (corpus, aspect, language pair), sorted; `scores` maps metric -> rating_id -> score."""
    found: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["corpus"], row["aspect"], row["language_pair"] or NO_PAIR), []).append(row)
    return [_group(key, members, scores) for key, members in sorted(found.items())]


def _group(key: tuple[str, str, str], rows: list[dict[str, Any]], scores: dict[str, dict[str, float]]) -> Group:
    names = [row["segment"] if row["segment"] is not None else row["reference"] for row in rows]
    _, segments = numpy.unique(numpy.array(names, dtype=object).astype(str), return_inverse=True)
    return Group(
        *key,
        human=numpy.array([row["score"] for row in rows], dtype=numpy.float64),
        raw=numpy.array([numpy.nan if row["raw"] is None else row["raw"] for row in rows], dtype=numpy.float64),
        segments=segments,
        scores={
            metric: numpy.array([by_row[row["rating_id"]] for row in rows], dtype=numpy.float64)
            for metric, by_row in scores.items()
        },
    )


def darr_rule(corpus: str, gap: float) -> tuple[float, bool]:
    """The gap and whether a metric's ties count: before WMT18 any difference counted and ties were left out."""
    return (0.0, False) if corpus in ("wmt15", "wmt16", "wmt17") else (gap, True)


def measure(groups: Sequence[Group], resamples: int, darr_gap: float, seed: int) -> Measurements:
    """All statistics of all metrics on all groups, and their averages over language pairs."""
    found: Measurements = {}
    for group in groups:
        scope = ("evaluate", group.corpus, group.aspect, group.language_pair)
        weights = resampling.segment_weights(group.segments, resamples, generator(seed, *scope))
        for metric, scores in group.scores.items():
            for statistic, measured in _measure_metric(group, scores, weights, darr_gap).items():
                found[Key(group.corpus, group.aspect, metric, group.language_pair, statistic)] = measured
    return found | _averages(found)


def _measure_metric(group: Group, scores: Vector, weights: resampling.Weights, darr_gap: float) -> dict[str, Measured]:
    found = {
        name: Measured(exact(group.human, scores), weighted(group.human, scores, weights), len(scores))
        for name, (exact, weighted) in CORRELATIONS.items()
    }
    gap, ties_count = darr_rule(group.corpus, darr_gap)
    value = correlation.darr(group.raw, scores, group.segments, gap=gap, ties_count=ties_count)
    if value.pairs:
        pairs = correlation.darr_pairs(group.raw, group.segments, gap)
        outcomes = correlation.darr_outcomes(pairs, scores, ties_count)
        found["darr"] = Measured(value.value, resampling.weighted_darr(pairs, outcomes, weights), value.pairs)
    return found


def _averages(found: Measurements) -> Measurements:
    """Means over language pairs; undefined where the statistic is undefined on one of them."""
    members: dict[Key, list[Measured]] = {}
    for key, measured in found.items():
        average = Key(key.corpus, key.aspect, key.metric, AVERAGE, key.statistic)
        members.setdefault(average, []).append(measured)
    return {
        key: Measured(
            float(numpy.mean([one.value for one in ones])),
            numpy.mean([one.resamples for one in ones], axis=0),
            sum(one.count for one in ones),
        )
        for key, ones in members.items()
    }


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
