"""Agreement of every metric with people, by language pair and on average, with bootstrap intervals.

For segments, the human side is `score` (the standardised rating if known) for Kendall, Pearson and Spearman, and points
of 100 for DARR, as in WMT. Every metric meets the same resamples, so that differences of metrics can be tested on them.

Statistics of systems, and those of segments in which ties count, are in `details`: they have no interval.

The average is the mean over language pairs, which weigh the same. A pair on which people say nothing (`left_out`) does
not count, for any metric.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy
import pandas

from pipeline.core.records import AGREEMENT, AVERAGE, NO_PAIR
from pipeline.core.shards import generator
from pipeline.evaluate.metrics import Row
from pipeline.evaluate.predictions import systems_of
from pipeline.statistics import correlation, resampling
from pipeline.statistics.correlation import Vector
from pipeline.statistics.tests import interval

CORRELATIONS = {
    "kendall": (correlation.kendall, resampling.weighted_kendall),
    "pearson": (correlation.pearson, resampling.weighted_pearson),
    "spearman": (correlation.spearman, resampling.weighted_spearman),
}

HUMAN = "human"
"""Column of `Group.systems`; no metric has this name."""

KEY = ["corpus", "aspect", "metric", "language_pair", "statistic"]
"""What a measurement describes: the first columns of AGREEMENT."""


@dataclass(frozen=True)
class Group:
    """Test rows of one corpus, aspect and language pair; every vector is (rows,).

    `points`: raw ratings from 0 to 100, NaN if unknown. If an output was judged several times, its first row has the
    mean and its other rows have NaN. `year`: of the WMT campaign, None if there is none. `scores`: a column for each
    metric that scores segments. `authors`: name of a system, its index the row's number; a row of "a+b" stands there
    twice, one without a system not at all. `systems`: a row for each system, with people's score (HUMAN) and a column
    for each metric; None if no row names a system.
    """

    corpus: str
    aspect: str
    language_pair: str
    year: int | None
    human: Vector
    points: Vector
    segments: numpy.ndarray
    scores: pandas.DataFrame
    authors: pandas.Series
    systems: pandas.DataFrame | None

    @property
    def names(self) -> dict[str, str]:
        """The group's part of KEY."""
        return {"corpus": self.corpus, "aspect": self.aspect, "language_pair": self.language_pair}

    @property
    def one_segment(self) -> bool:
        """Whether all rows belong to one segment, so that all resamples are the same."""
        return len(numpy.unique(self.segments)) < 2


def group_rows(
    rows: Sequence[Row], scores: pandas.DataFrame, system_scores: pandas.DataFrame | None = None
) -> list[Group]:
    """Test rows by (corpus, aspect, language pair), sorted.

    `scores` has the columns of PREDICTIONS, `system_scores` those of SYSTEM_PREDICTIONS. A metric takes part in the
    corpora of which it scored every row, or every system.
    """
    rated = pandas.DataFrame(rows, dtype=object)
    rated["language_pair"] = [pair or NO_PAIR for pair in rated["language_pair"]]
    wide = _wide(scores, ["rating_id"]).reindex(rated["rating_id"]).set_axis(rated.index)
    authors = pandas.Series([systems_of(row) for row in rows], dtype=object).explode().dropna()
    groups = []
    for corpus, mine in rated.groupby("corpus"):
        known = wide.loc[mine.index].dropna(axis="columns")
        systems = _system_table(mine, known, authors, system_scores)
        for (aspect, pair), members in mine.groupby(["aspect", "language_pair"]):
            found = systems.get((aspect, pair))
            own = authors[authors.index.isin(members.index)]
            own.index = members.index.get_indexer(own.index)
            groups.append(_group((corpus, aspect, pair), members, known.loc[members.index], own, found))
    return groups


def _wide(scores: pandas.DataFrame, index: list[str]) -> pandas.DataFrame:
    """A column for each metric, in order of appearance."""
    wide = scores.pivot(index=index, columns="metric", values="score")
    return wide[scores["metric"].unique()].astype(numpy.float64)


def _group(
    key: tuple[str, str, str],
    rows: pandas.DataFrame,
    scores: pandas.DataFrame,
    authors: pandas.Series,
    systems: pandas.DataFrame | None,
) -> Group:
    outputs = rows[["segment", "reference", "system", "candidate"]].fillna("")
    points = [_points(*values) for values in zip(rows["raw"], rows["z"], rows["score"], strict=True)]
    years = set(rows["year"])
    assert len(years) == 1, "collect holds a test corpus to one year"
    return Group(
        *key,
        year=years.pop(),
        human=rows["score"].to_numpy(numpy.float64),
        points=correlation.judged_once(numpy.array(points), _numbers(outputs, list(outputs))),
        segments=_numbers(outputs, ["segment", "reference"]),
        scores=scores,
        authors=authors,
        systems=systems,
    )


def _numbers(rows: pandas.DataFrame, columns: list[str]) -> numpy.ndarray:
    """For each row the number of its `columns` among all different ones, sorted."""
    return numpy.asarray(rows.groupby(columns).ngroup())


def _points(raw: float | None, z: float | None, score: float) -> float:
    """The raw rating from 0 to 100: of WMT as it is, else from its scale (rounded, so that 55 stays 55)."""
    if raw is None:
        return numpy.nan
    return float(raw) if z is not None else round(100 * score, 9)


def _system_table(
    rows: pandas.DataFrame, scores: pandas.DataFrame, authors: pandas.Series, system_scores: pandas.DataFrame | None
) -> dict[tuple[str, str], pandas.DataFrame]:
    """(aspect, language pair) -> `Group.systems`, for one corpus; empty if its rows name no system.

    People's score of a system is the one that came with the ratings (`system_ratings`) if all systems of the group have
    one, else the mean of its rows. The score of a metric that scores segments is its mean over the system's rows; a
    metric that scores systems takes part if it scored all of the corpus.
    """
    key = ["aspect", "language_pair", "system"]
    rated = rows[key[:2]].assign(**{HUMAN: rows["score"].astype(float)}).join(scores)
    named = rated.join(authors.rename("system"), how="inner")
    if named.empty:
        return {}
    means = named.groupby(key).mean()
    if system_scores is not None and (system_scores["corpus"] == rows["corpus"].iloc[0]).any():
        own = _wide(system_scores[system_scores["corpus"] == rows["corpus"].iloc[0]], key[1:])
        means = means.join(own.reindex(means.index.droplevel("aspect")).set_axis(means.index).dropna(axis="columns"))
    published = _published_ratings(rows)
    tables = {}
    for group, part in means.groupby(key[:2]):
        table = part.droplevel(key[:2])
        if published.get(group, {}).keys() >= set(table.index):
            table[HUMAN] = [published[group][system] for system in table.index]
        tables[group] = table
    return tables


def _published_ratings(rows: pandas.DataFrame) -> dict[tuple[str, str], dict[str, float]]:
    """(aspect, language pair) -> people's scores of systems that came with the ratings."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    if "system_ratings" in rows:
        for aspect, pair, ratings in zip(rows["aspect"], rows["language_pair"], rows["system_ratings"], strict=True):
            found.setdefault((aspect, pair), {}).update(ratings or ())
    return found


def darr_rule(year: int | None, gap: float) -> tuple[float, bool]:
    """The gap and whether a metric's ties count: before WMT18 any difference counted and ties were left out."""
    return (0.0, False) if year is not None and year < 2018 else (gap, True)


def left_out(group: Group) -> str | None:
    """Why the group is not averaged: people's ratings on it define no correlation with anything; None if they do."""
    if group.one_segment:
        return "fewer than two rated segments"
    return "all human ratings are equal" if numpy.ptp(group.human) == 0 else None


def measure(groups: Sequence[Group], resamples: int, darr_gap: float, seed: int) -> pandas.DataFrame:
    """The headline statistics of all metrics on all groups, then their averages over language pairs.

    Columns: KEY, `value`, `resamples` (an array (resamples,) in each cell) and `count` (see AGREEMENT).
    """
    rows: list[Row] = []
    for group in groups:
        averaged = {**group.names, "averaged": left_out(group) is None}
        weights = resampling.segment_weights(
            group.segments, resamples, generator(seed, "evaluate", *group.names.values())
        )
        for metric in group.scores:
            scores = group.scores[metric].to_numpy()
            rows += [{**averaged, "metric": metric, **one} for one in _of_segments(group, scores, weights, darr_gap)]
    found = pandas.DataFrame(rows, columns=[*KEY, "value", "resamples", "count", "averaged"])
    of_one_average = [name for name in KEY if name != "language_pair"]
    averages = [_average(part, resamples) for _, part in found.groupby(of_one_average, sort=False)]
    return pandas.concat([found, pandas.DataFrame(averages, columns=found.columns)]).drop(columns="averaged")


def _of_segments(group: Group, scores: Vector, weights: resampling.Weights, darr_gap: float) -> Iterator[Row]:
    """Statistic, value, resamples and count of one metric."""
    nothing = numpy.full(len(weights), numpy.nan)
    for name, (exact, weighted) in CORRELATIONS.items():
        drawn = nothing if group.one_segment else weighted(group.human, scores, weights)
        yield {"statistic": name, "value": exact(group.human, scores), "resamples": drawn, "count": len(scores)}
    gap, ties_count = darr_rule(group.year, darr_gap)
    pairs = correlation.darr_pairs(group.points, group.segments, gap)
    if len(pairs.better):
        darr = correlation.darr(group.points, scores, group.segments, gap=gap, ties_count=ties_count)
        outcomes = correlation.darr_outcomes(pairs, scores, ties_count)
        drawn = nothing if group.one_segment else resampling.weighted_darr(pairs, outcomes, weights)
        yield {"statistic": "darr", "value": darr.value, "resamples": drawn, "count": darr.pairs}


def _average(part: pandas.DataFrame, resamples: int) -> Row:
    """The mean of one statistic over the language pairs that are averaged; NaN if it is undefined on one of them."""
    key = {**part.iloc[0][KEY], "language_pair": AVERAGE}
    kept = part[part["averaged"]]
    if kept.empty:
        return {**key, "value": numpy.nan, "resamples": numpy.full(resamples, numpy.nan), "count": 0}
    drawn = numpy.mean(kept["resamples"].tolist(), axis=0)
    return {**key, "value": numpy.mean(kept["value"].to_numpy()), "resamples": drawn, "count": kept["count"].sum()}


def agreement_table(measured: pandas.DataFrame, confidence: float) -> pandas.DataFrame:
    """`measured` as AGREEMENT has it: bounds in place of resamples; rounded to 9 digits, below any meaning."""
    bounds = [interval(values, confidence) for values in measured["resamples"]]
    table = measured.assign(low=[one.low for one in bounds], high=[one.high for one in bounds])
    return table.round({"value": 9, "low": 9, "high": 9})[AGREEMENT.names].astype({"count": int}).reset_index(drop=True)
