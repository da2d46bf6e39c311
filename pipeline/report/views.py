"""Agreement with people as the report's tables, all numbers times 100, and the sentences that describe them.

Trained metrics come first, then baselines, both by falling average Kendall. The report is about "bleurt/all" if it
exists, else about the first metric by name that was pre-trained, never about the one with the best score on test rows.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import pandas

from pipeline.core.params import MODELS
from pipeline.core.records import AGREEMENT, AVERAGE, STATISTICS, TRAINED, UNTRAINED, headline_statistics
from pipeline.report.gather import Gathered
from pipeline.report.page import p_text
from pipeline.report.published import CITATION, Published, published_table

Row = dict[str, Any]
SAMPLE = PurePosixPath("data/sample")
"""The folder of the project's own ratings."""


@dataclass(frozen=True)
class Cell:
    """A statistic times 100 with its interval, NaN if undefined; `count` rows or pairs are behind it."""

    value: float
    low: float
    high: float
    count: int

    @property
    def text(self) -> str:
        """One decimal, or "undefined" (a constant column)."""
        return "undefined" if math.isnan(self.value) else f"{self.value:.1f}"

    @property
    def range(self) -> str:
        """The interval, or nothing if there is none."""
        return "" if math.isnan(self.low) else f"{self.low:.1f} – {self.high:.1f}"

    @property
    def line(self) -> str:
        """Text and interval in one line."""
        return f"{self.text:>5} ({self.range})" if self.range else f"{self.text:>5}"


@dataclass(frozen=True, eq=False)
class Benchmark:
    """One corpus and aspect; `metrics` stand in the order of the tables.

    `numbers` has a row for each (statistic, metric, language pair) and the columns value, low, high (times 100), count.
    """

    corpus: str
    aspect: str
    metrics: tuple[str, ...]
    numbers: pandas.DataFrame

    @property
    def statistics(self) -> tuple[str, ...]:
        """Columns of the headline, as far as they were measured."""
        return tuple(headline_statistics((metric, statistic) for statistic, metric, _ in self.numbers.index))

    def measured(self, statistics: Iterable[str]) -> list[str]:
        """Those of `statistics` that have numbers."""
        present = set(self.numbers.index.get_level_values("statistic"))
        return [name for name in statistics if name in present]

    @property
    def language_pairs(self) -> tuple[str, ...]:
        """Sorted, without AVERAGE."""
        return tuple(sorted(set(self.numbers.index.get_level_values("language_pair")) - {AVERAGE}))

    def cell(self, statistic: str, metric: str, language_pair: str) -> Cell | None:
        """One number; None if it was not computed, such as DARR of a metric that ties all pairs."""
        place = (statistic, metric, language_pair)
        if place not in self.numbers.index:
            return None
        value, low, high, count = self.numbers.loc[place]
        return Cell(float(value), float(low), float(high), int(count))

    def average(self, statistic: str, metric: str) -> Cell | None:
        """The mean over language pairs; None if it was not computed."""
        return self.cell(statistic, metric, AVERAGE)

    def column(self, statistic: str, language_pair: str) -> list[Cell | None]:
        """One cell for each metric, in the order of the tables."""
        return [self.cell(statistic, metric, language_pair) for metric in self.metrics]

    def best(self, statistic: str, language_pair: str) -> float:
        """The highest value of a column, for emphasis; NaN if none is defined."""
        return float(self._all(statistic, language_pair)["value"].max())

    def counts(self, statistic: str, language_pair: str) -> str:
        """Rows or pairs behind a column; the smallest and largest if metrics differ (DARR leaves ties out)."""
        found = self._all(statistic, language_pair)["count"]
        return " – ".join(f"{count:,}" for count in dict.fromkeys((found.min(), found.max())))

    def _all(self, statistic: str, language_pair: str) -> pandas.DataFrame:
        return _column(self.numbers, statistic, language_pair)

    @property
    def primary(self) -> str | None:
        """The trained metric that the report is about."""
        trained = [metric for metric in self.metrics if metric.startswith(TRAINED)]
        return min(trained, key=lambda name: (name != f"{TRAINED}all", name == UNTRAINED, name), default=None)

    @property
    def rows(self) -> int:
        """Rated segments behind the averages."""
        return max(self._all("kendall", AVERAGE)["count"], default=0)

    @property
    def all_rows(self) -> int:
        """Rated segments of all language pairs, including those that the averages leave out."""
        return sum(max(self._all("kendall", pair)["count"], default=0) for pair in self.language_pairs)


def corpora_of(found: Gathered) -> list[str]:
    """The corpora's names in the order of params.yaml."""
    return [corpus["name"] for corpus in found.params["collect"].get("corpora", [])]


def benchmarks(agreement: pandas.DataFrame | Sequence[Row], corpora: Sequence[str] = ()) -> list[Benchmark]:
    """Rows of AGREEMENT as one benchmark for each corpus and aspect, in the order of `corpora`, then of appearance."""
    groups = pandas.DataFrame(agreement, columns=AGREEMENT.names).groupby(["corpus", "aspect"], sort=False)
    places = {corpus: place for place, corpus in enumerate(corpora)}
    found = [_benchmark(corpus, aspect, rows) for (corpus, aspect), rows in groups]
    return sorted(found, key=lambda mark: places.get(mark.corpus, len(places)))


def _benchmark(corpus: str, aspect: str, rows: pandas.DataFrame) -> Benchmark:
    numbers = rows.set_index(["statistic", "metric", "language_pair"])[["value", "low", "high", "count"]]
    numbers[["value", "low", "high"]] *= 100
    metrics = rows[["metric"]].drop_duplicates()
    metrics["baseline"] = ~metrics["metric"].str.startswith(TRAINED)
    metrics["kendall"] = metrics["metric"].map(_column(numbers, "kendall", AVERAGE)["value"])
    ordered = metrics.sort_values(["baseline", "kendall", "metric"], ascending=[True, False, True])
    return Benchmark(corpus, aspect, tuple(ordered["metric"]), numbers)


def _column(numbers: pandas.DataFrame, statistic: str, language_pair: str) -> pandas.DataFrame:
    """Numbers of one statistic and language pair by metric; often none of some metrics."""
    place = numbers.index
    wanted = (place.get_level_values(0) == statistic) & (place.get_level_values(2) == language_pair)
    return numbers[wanted].droplevel([0, 2])


def comparisons(found: Gathered, benchmark: Benchmark, role: str) -> list[Row]:
    """Records of significance.json of a benchmark in one role, in the order of `benchmark.metrics`."""
    records = [
        record
        for record in found.significance
        if (record["corpus"], record["aspect"], record["role"]) == (benchmark.corpus, benchmark.aspect, role)
    ]
    return sorted(records, key=lambda record: benchmark.metrics.index(record["metric"]))


def summary(found: Gathered, benchmark: Benchmark) -> str:
    """The result in two or three sentences."""
    primary = benchmark.primary
    cell = benchmark.average("kendall", primary) if primary else None
    if primary is None or cell is None:
        return "No trained metric was evaluated."
    text = f"{primary} agrees with people at Kendall τ-b × 100 = {cell.text} ({cell.range})."
    for role, words in (
        ("without pre-training", "than the same encoder fine-tuned without pre-training"),
        ("best baseline", "than the best baseline, {against}"),
    ):
        for record in comparisons(found, benchmark, role):
            if record["metric"] == primary and record["difference"] is not None:
                text += " " + _difference(record, words.format(against=record["against"]))
    return text + _start(found, primary)


def _start(found: Gathered, metric: str) -> str:
    """A sentence if the pre-training of `metric` did not begin with the encoder but with a checkpoint (params.yaml)."""
    start = found.params.get("pretrain", {}).get("continue_from")
    if not start or metric == UNTRAINED:
        return ""
    return f" Its pre-training went on from {str(start).partition('@')[0]}, which had learned from other pairs before."


def _difference(record: Row, words: str) -> str:
    points = 100 * record["difference"]
    direction = "higher" if points >= 0 else "lower"
    corrected = record.get("p_value_holm")
    p_value = record["p_value"] if corrected is None else corrected
    sure = "" if p_value is None else f", {p_text(p_value)}{'' if corrected is None else ' (corrected)'}"
    return f"That is {abs(points):.1f} points {direction} {words}{sure}."


def chosen_metrics(benchmark: Benchmark) -> list[str]:
    """At most five metrics for charts: the primary one, the untrained one, and baselines of three different kinds."""
    wanted = [benchmark.primary, UNTRAINED, "bertscore", "chrf++", "sentbleu"]
    found = [metric for metric in wanted if metric in benchmark.metrics]
    return list(dict.fromkeys(metric for metric in found if metric is not None))


@dataclass(frozen=True)
class PublishedRows:
    """Others' numbers for a benchmark: (metric, a cell for each language pair, or None if it was not published)."""

    heading: str
    second: str
    language_pairs: tuple[str, ...]
    rows: list[tuple[str, list[Published | None]]]


def published(found: Gathered, benchmark: Benchmark) -> PublishedRows | None:
    """The paper's table for the benchmark's WMT campaign; None if the paper has none."""
    table = published_table(found.method.get("years", {}).get(benchmark.corpus))
    if table is None:
        return None
    pairs = (*table.language_pairs, AVERAGE)
    by_metric: dict[str, dict[str, Published]] = {}
    for cell in table.cells():
        by_metric.setdefault(cell.metric, {})[cell.language_pair] = cell
    rows = [(metric, [cells.get(pair) for pair in pairs]) for metric, cells in by_metric.items()]
    heading = f"{CITATION}, table {table.number}"
    return PublishedRows(heading, STATISTICS[table.second], pairs, rows)


def headline(found: Gathered, marks: Sequence[Benchmark]) -> str:
    """The headline tables as plain text, for the terminal and reports/headline.txt."""
    confidence = found.method.get("settings", {}).get("confidence", 0)
    blocks = []
    for benchmark in marks:
        lines = [
            f"{benchmark.corpus}, {benchmark.aspect}: agreement with people x 100 on {benchmark.rows} rated segments, "
            f"average of {pairs_text(found, benchmark)} ({confidence:.0%} interval)",
            *([f"Left out of the average: {'; '.join(left)}."] if (left := left_out(found, benchmark)) else []),
            "",
            "  ".join([f"{'metric':<24}", *(f"{STATISTICS[name]:<20}" for name in benchmark.statistics)]).rstrip(),
        ]
        for metric in benchmark.metrics:
            cells = [benchmark.average(statistic, metric) for statistic in benchmark.statistics]
            texts = [cell.line if cell else "" for cell in cells]
            lines.append("  ".join([f"{metric:<24}", *(f"{text:<20}" for text in texts)]).rstrip())
        blocks.append("\n".join([*lines, "", summary(found, benchmark)]))
    return "\n\n".join(blocks or ["Nothing was evaluated."])


def pairs_text(found: Gathered, benchmark: Benchmark) -> str:
    """How many language pairs are averaged, in words."""
    left = {record["language_pair"] for record in _left_out(found, benchmark)}
    count = len(set(benchmark.language_pairs) - left)
    return "1 language pair" if count == 1 else f"{count} language pairs"


def demonstration(found: Gathered, marks: Sequence[Benchmark]) -> list[str]:
    """Why the numbers only show that the pipeline works, one sentence for each reason; empty if they may count.

    A corpus is the project's own if its path lies in SAMPLE, whatever its name.
    """
    corpora = {corpus["name"]: corpus for corpus in found.params["collect"].get("corpora", [])}
    ours = [mark.corpus for mark in marks if _is_sample(corpora.get(mark.corpus, {}))]
    reasons = ["The run is small: few sentences, few training steps."] if found.profile == "embedded" else []
    if ours:
        reasons.append(f"The ratings of {', '.join(dict.fromkeys(ours))} were written by the project itself.")
    return reasons


def _is_sample(corpus: Row) -> bool:
    return any(PurePosixPath(part["path"]).is_relative_to(SAMPLE) for part in corpus.get("parts", []))


def left_out(found: Gathered, benchmark: Benchmark, key: str = "left_out") -> list[str]:
    """Language pairs that averages leave out, each with the reason; `key`: of method.json, for segments or systems."""
    return [f"{record['language_pair']} ({record['reason']})" for record in _left_out(found, benchmark, key)]


def _left_out(found: Gathered, benchmark: Benchmark, key: str = "left_out") -> list[Row]:
    wanted = (benchmark.corpus, benchmark.aspect)
    return [record for record in found.method.get(key, []) if (record["corpus"], record["aspect"]) == wanted]


def signal_name(column: str, pivots: Sequence[str]) -> str:
    """A column of a signal in words; the language of a pivot replaces its number.

    >>> signal_name("backtranslation_2_reference_candidate", ("fr", "de"))
    'backtranslation de reference candidate'
    """
    words = column.split("_")
    if words[0] == "backtranslation" and words[1].isdigit() and int(words[1]) <= len(pivots):
        words[1] = pivots[int(words[1]) - 1]
    return " ".join(words)


def pivots(found: Gathered) -> list[str]:
    """Languages of the backtranslation likelihoods' pivots, in the order of their columns."""
    key = found.params["label"].get("backtranslation.pivots")  # of the models, or the pivots are written out
    section, start = ("label", "backtranslation.pivots.") if key is None else (MODELS, f"{key}.")
    names = [name.removeprefix(start) for name in found.params[section] if name.startswith(start)]
    return list(dict.fromkeys(name.split(".")[0] for name in names))
