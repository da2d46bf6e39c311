"""What the report draws and quotes: distributions of signals, calibration points, worst disagreements, pairs made."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
from scipy import stats

from pipeline.core.records import PAIRS, SIGNAL_COLUMNS, signal_schema
from pipeline.core.shards import list_shards, read_shard
from pipeline.evaluate.names import NO_PAIR

Row = dict[str, Any]
COUNT: list[tuple[list[str], str]] = [([], "count_all")]
"""pyarrow's aggregate that counts the rows of a group."""


@dataclass(frozen=True)
class Histogram:
    """Distribution of one signal column: `shares` (bins,) of all rows between `edges` (bins + 1,), and its mean."""

    column: str
    edges: list[float]
    shares: list[float]
    mean: float
    rows: int


@dataclass(frozen=True)
class Disagreement:
    """A rated candidate with its place, in per cent from the bottom, among its language pair's: people's and metric's.

    `gap` is metric less human, in points: positive where the metric is too kind.
    """

    corpus: str
    language_pair: str
    system: str
    reference: str
    candidate: str
    human: float
    metric: float
    gap: float


@dataclass(frozen=True)
class Technique:
    """How many pairs a technique made, and one of them to look at."""

    name: str
    pairs: int
    reference: str
    candidate: str


def signal_histograms(labels: Path, bins: int) -> list[Histogram]:
    """One histogram for each column of each signal folder that exists, shard by shard, `bins` equal bins."""
    found = []
    for signal, columns in SIGNAL_COLUMNS.items():
        if not (labels / signal).is_dir():
            continue
        shards, schema = list_shards(labels / signal), signal_schema(signal)
        for column in columns:
            histogram = _histogram(column, [read_shard(s, schema).column(column).to_numpy() for s in shards], bins)
            found += [histogram] if histogram else []
    return found


def _histogram(column: str, parts: list[numpy.ndarray], bins: int) -> Histogram | None:
    values = numpy.concatenate(parts).astype(numpy.float64)
    if len(values) == 0:
        return None
    low, high = float(values.min()), float(values.max())
    if low >= 0 and high <= 1:
        low, high = 0.0, 1.0  # probabilities and scores share one axis, so that they can be compared
    elif low == high:
        low, high = low - 0.5, high + 0.5
    counts, edges = numpy.histogram(values, bins=bins, range=(low, high))
    return Histogram(column, edges.tolist(), (counts / len(values)).tolist(), float(values.mean()), len(values))


def percentiles(rows: list[Row], scores: dict[str, float]) -> list[Disagreement]:
    """Where people and the metric place each row among the rows of its corpus, aspect and language pair."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["corpus"], row["aspect"], row["language_pair"] or NO_PAIR), []).append(row)
    found = []
    for members in groups.values():
        human = _percent([row["score"] for row in members])
        metric = _percent([scores[row["rating_id"]] for row in members])
        for row, h, m in zip(members, human, metric, strict=True):
            place = (row["corpus"], row["language_pair"] or NO_PAIR, row["system"] or "")
            found.append(Disagreement(*place, row["reference"], row["candidate"], h, m, m - h))
    return found


def _percent(values: list[float]) -> list[float]:
    """Average rank, from 0 (lowest) to 100 (highest); 50 for a single value.

    >>> _percent([3.0, 1.0, 2.0])
    [100.0, 0.0, 50.0]
    """
    if len(values) == 1:
        return [50.0]
    ranks = (stats.rankdata(values) - 1) / (len(values) - 1) * 100
    return [float(rank) for rank in ranks]


def worst(disagreements: list[Disagreement], count: int, *, kind: bool) -> list[Disagreement]:
    """The `count` rows that the metric places too high (`kind`) or too low, largest gap first."""
    signed = [d for d in disagreements if (d.gap > 0 if kind else d.gap < 0)]
    return sorted(signed, key=lambda d: (-abs(d.gap), d.reference, d.candidate))[:count]


def techniques(pairs: Path) -> list[Technique]:
    """Pairs by technique, most frequent first, each with a pair of the first shard; empty without a folder."""
    if not pairs.is_dir():
        return []
    counts: Counter[str] = Counter()
    shards = list_shards(pairs)
    for shard in shards:
        table = read_shard(shard, PAIRS)
        for row in table.group_by(["technique", "pivot", "mask_style", "dropped_words"]).aggregate(COUNT).to_pylist():
            counts[_technique(row)] += row["count_all"]
    examples: dict[str, tuple[str, str]] = {}
    for row in read_shard(shards[0], PAIRS).to_pylist():
        if row["reference"] != row["candidate"]:
            examples.setdefault(_technique(row), (row["reference"], row["candidate"]))
    return [
        Technique(name, count, *examples.get(name, ("", "")))
        for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]


TECHNIQUES = {
    "backtranslate": "backtranslation",
    "mask_fill": "mask filling",
    "system_output": "system output",
    "translate": "translation of parallel text",
}


def _technique(row: Row) -> str:
    name = TECHNIQUES[row["technique"]]
    detail = row["pivot"] or row["mask_style"]
    return (f"{name}, {detail}" if detail else name) + (", words dropped" if row["dropped_words"] else "")
