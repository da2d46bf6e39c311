"""What the report draws and quotes: distributions of signals, worst disagreements with people, pairs by technique."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import pandas
import pyarrow
import pyarrow.parquet

from pipeline.core.records import PAIRS
from pipeline.core.shards import list_shards, read_shard

Row = dict[str, Any]
PAIR_ID = "pair_id"
"""The column of a label shard that is no signal."""

KIND = ["technique", "pivot", "mask_style", "dropped_words"]
"""Columns of PAIRS that say how a pair was made."""

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
class Technique:
    """How many pairs a technique made, and one of them as an example."""

    name: str
    pairs: int
    reference: str
    candidate: str


def signal_histograms(labels: Path, signals: Sequence[str], bins: int) -> list[Histogram]:
    """One histogram of `bins` equal bins for each column of each of `signals` whose folder exists."""
    found = []
    for folder in (labels / signal for signal in signals):
        if folder.is_dir():
            shards = list_shards(folder)
            schema = _schema(shards[0])
            columns = [name for name in schema.names if name != PAIR_ID]
            table = pyarrow.concat_tables([read_shard(shard, schema).select(columns) for shard in shards])
            found += [_histogram(name, table.column(name).to_numpy(), bins) for name in columns if len(table)]
    return found


def _schema(shard: Path) -> pyarrow.Schema:
    """The shard's own columns; none if it cannot be read, because `read_shard` then reports the error."""
    try:
        return pyarrow.parquet.read_schema(shard)
    except pyarrow.ArrowException:
        return pyarrow.schema([])


def _histogram(column: str, values: numpy.ndarray, bins: int) -> Histogram:
    values = values.astype(numpy.float64)
    low, high = float(values.min()), float(values.max())
    if low >= 0 and high <= 1:
        low, high = 0.0, 1.0  # probabilities and scores share one axis, so that they can be compared
    elif low == high:
        low, high = low - 0.5, high + 0.5
    counts, edges = numpy.histogram(values, bins=bins, range=(low, high))
    return Histogram(column, edges.tolist(), (counts / len(values)).tolist(), float(values.mean()), len(values))


def places(rated: pandas.DataFrame) -> pandas.DataFrame:
    """Add where people and the metric place each row among the rows of its language pair, and by how much they differ.

    Columns that are read: language_pair, human, metric. Columns that are added: human_place and metric_place, from 0
    (lowest) to 100 (highest), the mean place if values are equal, 50 if there is only one row; and gap, the metric's
    place minus people's, positive if the metric is too kind.

    >>> rated = pandas.DataFrame({"language_pair": "de-en", "human": [3.0, 1.0, 2.0], "metric": [1.0, 2.0, 3.0]})
    >>> list(places(rated)["human_place"]), list(places(rated)["gap"])
    ([100.0, 0.0, 50.0], [-100.0, 50.0, 50.0])
    """
    pairs = rated.groupby("language_pair")
    others = pairs["human"].transform("size") - 1
    human, metric = ((pairs[side].rank() - 1).div(others).mul(100).fillna(50.0) for side in ("human", "metric"))
    return rated.assign(human_place=human, metric_place=metric, gap=metric - human)


def worst(placed: pandas.DataFrame, count: int, *, kind: bool) -> list[Row]:
    """The `count` rows of `places` that the metric places too high (`kind`) or too low, largest gap first."""
    sign = 1 if kind else -1
    found = placed.assign(size=sign * placed["gap"]).query("size > 0")
    rows: list[Row] = (
        found.sort_values(["size", "reference", "candidate"], ascending=[False, True, True])[:count]
        .drop(columns="size")
        .to_dict("records")
    )
    return rows


def techniques(pairs: Path) -> list[Technique]:
    """Pairs by technique, most frequent first, each with a pair of the first shard; empty without a folder."""
    if not pairs.is_dir():
        return []
    counts: Counter[str] = Counter()
    shards = list_shards(pairs)
    for shard in shards:
        for row in read_shard(shard, PAIRS).group_by(KIND).aggregate(COUNT).to_pylist():
            counts[_technique(row)] += row["count_all"]
    examples: dict[str, tuple[str, str]] = {}
    for row in read_shard(shards[0], PAIRS).to_pylist():
        if row["reference"] != row["candidate"]:
            examples.setdefault(_technique(row), (row["reference"], row["candidate"]))
    return [
        Technique(name, count, *examples.get(name, ("", "")))
        for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]


def _technique(row: Row) -> str:
    """The technique in words, with its pivot or the style of its masks.

    >>> _technique({"technique": "mask_fill", "pivot": None, "mask_style": "span", "dropped_words": 2})
    'mask fill, span, words dropped'
    """
    name = row["technique"].replace("_", " ")
    detail = row["pivot"] or row["mask_style"]
    return (f"{name}, {detail}" if detail else name) + (", words dropped" if row["dropped_words"] else "")
