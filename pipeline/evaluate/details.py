"""Agreement on systems, and on segments with ties: the statistics beside the headline, without intervals.

**Systems.** People's score of each system (published with the ratings, else the mean of its rated segments) is compared
with the metric's (its mean over the same rated segments, or its own score of the whole system). A language pair needs
LEAST_SYSTEMS systems. `*_inliers` leave out systems that people rate far from the rest. WMT scores all segments of a
system; here only rated ones are scored, and so numbers may differ from WMT's.

**Soft pairwise accuracy** needs segments that are rated for every system of the language pair, as in mt-metrics-eval.
Below LEAST_SEGMENTS of them there is no number. WMT17 has none: its raters saw most segments of one system only.

**Segments with ties.** Pairs of rows of one language pair, of one system in it, or of one item. An output that two
systems share is one row of the item, and a row of both systems. Without systems there is no average by system.

Averages over language pairs are plain means, except pairwise accuracy: there all pairs of systems weigh the same
(Kocmi and others 2021). A language pair that lacks a statistic is not in its average.
"""

from collections.abc import Iterator, Sequence

import numpy
import pandas

from pipeline.core.records import AGREEMENT, AVERAGE
from pipeline.core.shards import generator
from pipeline.evaluate.agreement import HUMAN, KEY, Group, left_out
from pipeline.evaluate.metrics import Row
from pipeline.statistics import correlation, systems
from pipeline.statistics.correlation import Vector
from pipeline.statistics.ties import Pairs, best_acc_23, pairs_inside, tau_23

LEAST_SYSTEMS = 3
"""With two systems every correlation is 1 or -1."""

LEAST_SEGMENTS = 10
"""Fewer have less than 1,000 arrangements of their signs, and too coarse p-values."""


def systems_left_out(group: Group) -> str | None:
    """Why a group with scores of systems has no statistic of systems; None if it has."""
    assert group.systems is not None
    if len(group.systems) < LEAST_SYSTEMS:
        return f"fewer than {LEAST_SYSTEMS} systems"
    return "all systems have the same mean rating" if numpy.ptp(group.systems[HUMAN]) == 0 else None


def measure_details(groups: Sequence[Group], permutations: int, seed: int) -> pandas.DataFrame:
    """All statistics of all metrics on all groups, then their averages over language pairs; columns of AGREEMENT.

    `permutations`: of soft pairwise accuracy. Values are rounded to 9 digits, below any meaning.
    """
    rows: list[Row] = []
    for group in groups:
        averaged = {**group.names, "averaged": left_out(group) is None}
        scope = "evaluate", "details", *group.names.values()
        rows += [{**averaged, **one} for one in _with_ties(group, generator(seed, *scope, "ties"))]
        if group.systems is not None and systems_left_out(group) is None:
            rows += [{**averaged, **one} for one in _of_systems(group.systems)]
            rows += [{**averaged, **one} for one in _soft(group, permutations, generator(seed, *scope, "soft"))]
    found = pandas.DataFrame(rows, columns=[*KEY, "value", "count", "averaged"])
    of_one_average = [name for name in KEY if name != "language_pair"]
    used = found[found["averaged"].astype(bool)]
    averages = [_average(part) for _, part in used.groupby(of_one_average, sort=False)]
    table = pandas.concat([found, pandas.DataFrame(averages, columns=found.columns)])
    table = table.assign(low=numpy.nan, high=numpy.nan).round({"value": 9})
    return table[AGREEMENT.names].astype({"value": float, "count": int}).reset_index(drop=True)


def _average(part: pandas.DataFrame) -> Row:
    """The mean of one statistic over language pairs; NaN if it is undefined on one of them."""
    first, values, counts = part.iloc[0], part["value"].to_numpy(float), part["count"].to_numpy(float)
    pooled = first["statistic"] == "pairwise_accuracy"
    value = numpy.average(values, weights=counts if pooled else None)
    return {**first[KEY], "language_pair": AVERAGE, "value": value, "count": int(counts.sum())}


def _of_systems(table: pandas.DataFrame) -> Iterator[Row]:
    """Metric, statistic, value and count of every metric on the systems of a group."""
    human = table[HUMAN].to_numpy(float)
    kept = systems.inliers(human)
    for metric in table.columns.drop(HUMAN):
        scores = table[metric].to_numpy(float)
        for name, function in (("kendall", correlation.kendall), ("pearson", correlation.pearson)):
            yield _row(metric, f"system_{name}", function(human, scores), len(human))
            if kept.sum() >= LEAST_SYSTEMS:
                yield _row(metric, f"system_{name}_inliers", function(human[kept], scores[kept]), int(kept.sum()))
        pairs = len(human) * (len(human) - 1) // 2
        yield _row(metric, "pairwise_accuracy", systems.pairwise_accuracy(human, scores), pairs)


def _soft(group: Group, permutations: int, rng: numpy.random.Generator) -> Iterator[Row]:
    """Soft pairwise accuracy of the metrics that score segments, if enough segments are rated for every system."""
    columns = group.scores.reset_index(drop=True).assign(**{HUMAN: group.human})
    rated = columns.loc[group.authors.index].assign(system=group.authors.array)
    rated["segment"] = group.segments[group.authors.index]
    tables = rated.groupby(["system", "segment"]).mean().unstack("segment")
    human = tables[HUMAN].dropna(axis="columns")
    if human.shape[1] < LEAST_SEGMENTS:
        return
    signs = systems.random_signs(permutations, human.shape[1], rng)
    for metric in group.scores:
        scores = tables[metric][human.columns].to_numpy(float)
        value = systems.soft_pairwise_accuracy(human.to_numpy(float), scores, signs)
        yield _row(metric, "soft_pairwise_accuracy", value, human.shape[1])


def _with_ties(group: Group, rng: numpy.random.Generator) -> Iterator[Row]:
    """tau_23, and acc_23 with the best threshold, of every metric that scores segments, averaged in three ways."""
    rows = numpy.arange(len(group.human))
    by_system = group.authors.index.to_numpy()
    labels = {
        "pooled": (rows, numpy.zeros(len(rows))),
        "system": (by_system, pandas.factorize(group.authors)[0]),
        "item": (rows, group.segments),
    }
    for averaged, (chosen, groups) in labels.items():
        pairs = pairs_inside(groups, rng)
        if len(pairs.first):
            for metric in group.scores:
                yield from _tied(metric, averaged, group.human[chosen], group.scores[metric].to_numpy()[chosen], pairs)


def _tied(metric: str, averaged: str, human: Vector, scores: Vector, pairs: Pairs) -> Iterator[Row]:
    yield _row(metric, f"tau23_{averaged}", tau_23(human, scores, pairs), len(human))
    yield _row(metric, f"acc23_best_{averaged}", best_acc_23(human, scores, pairs).value, len(human))


def _row(metric: str, statistic: str, value: float, count: int) -> Row:
    return {"metric": metric, "statistic": statistic, "value": value, "count": count}
