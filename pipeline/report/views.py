"""Turns what was gathered into the tables of the report: plain rows of text and numbers, correlations times 100.

Trained metrics come first, then baselines by falling average Kendall. The metric that the report is about is
"bleurt/all" where it exists, else the first by name that was pre-trained, never chosen by its score on the test rows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from pipeline.evaluate.names import AVERAGE, TRAINED, UNTRAINED
from pipeline.report.gather import Gathered
from pipeline.report.published import CITATION, Published, published_table

Row = dict[str, Any]
STATISTICS = {"kendall": "Kendall τ-b", "pearson": "Pearson r", "spearman": "Spearman ρ", "darr": "DARR"}
SAMPLE = PurePosixPath("data/sample")
"""Where the project's own ratings stand."""


@dataclass(frozen=True)
class Cell:
    """A statistic times 100 with its interval; NaN where undefined."""

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
        """The interval, or nothing where undefined."""
        return "" if math.isnan(self.low) else f"{self.low:.1f} – {self.high:.1f}"


@dataclass(frozen=True)
class Benchmark:
    """One corpus and aspect: its metrics in table order, its language pairs, and cells[statistic][metric][pair]."""

    corpus: str
    aspect: str
    metrics: tuple[str, ...]
    language_pairs: tuple[str, ...]
    cells: dict[str, dict[str, dict[str, Cell]]]

    def average(self, statistic: str, metric: str) -> Cell | None:
        """The mean over language pairs, None where it was not computed."""
        return self.cells.get(statistic, {}).get(metric, {}).get(AVERAGE)

    @property
    def primary(self) -> str | None:
        """The trained metric that the report is about."""
        trained = [metric for metric in self.metrics if metric.startswith(TRAINED)]
        return min(trained, key=lambda name: (name != f"{TRAINED}all", name == UNTRAINED, name), default=None)

    @property
    def rows(self) -> int:
        """Rated segments behind the averages."""
        cell = self.average("kendall", self.metrics[0])
        return cell.count if cell else 0

    @property
    def all_rows(self) -> int:
        """Rated segments, those of language pairs that the averages leave out among them."""
        by_pair = self.cells["kendall"][self.metrics[0]]
        return sum(by_pair[pair].count for pair in self.language_pairs)

    def column(self, statistic: str, language_pair: str) -> list[Cell | None]:
        """One cell a metric, in table order; None where it was not computed (DARR of a metric that ties all pairs)."""
        by_metric = self.cells[statistic]
        return [by_metric.get(metric, {}).get(language_pair) for metric in self.metrics]

    def best(self, statistic: str, language_pair: str) -> float:
        """The highest value of a column, for emphasis."""
        values = [cell.value for cell in self.column(statistic, language_pair) if cell is not None]
        return max((value for value in values if not math.isnan(value)), default=math.nan)

    def counts(self, statistic: str, language_pair: str) -> str:
        """What a column's values were counted on; smallest and largest where metrics differ (DARR leaves ties out)."""
        found = sorted({cell.count for cell in self.column(statistic, language_pair) if cell is not None})
        return " – ".join(f"{count:,}" for count in dict.fromkeys((found[0], found[-1])))


def corpora_of(found: Gathered) -> list[str]:
    """The corpora's names in the order of params.yaml."""
    return [corpus["name"] for corpus in found.params["collect"].get("corpora", [])]


def benchmarks(agreement: Sequence[Row], corpora: Sequence[str] = ()) -> list[Benchmark]:
    """Agreement rows as one benchmark for each corpus and aspect, in the order of `corpora`, then of appearance."""
    grouped: dict[tuple[str, str], list[Row]] = {}
    for row in agreement:
        grouped.setdefault((row["corpus"], row["aspect"]), []).append(row)
    places = {corpus: place for place, corpus in enumerate(corpora)}
    ordered = sorted(grouped.items(), key=lambda item: places.get(item[0][0], len(places)))
    return [_benchmark(corpus, aspect, rows) for (corpus, aspect), rows in ordered]


def _benchmark(corpus: str, aspect: str, rows: Sequence[Row]) -> Benchmark:
    cells: dict[str, dict[str, dict[str, Cell]]] = {}
    for row in rows:
        cell = Cell(100 * row["value"], 100 * row["low"], 100 * row["high"], row["count"])
        cells.setdefault(row["statistic"], {}).setdefault(row["metric"], {})[row["language_pair"]] = cell
    averages = {metric: by_pair[AVERAGE].value for metric, by_pair in cells["kendall"].items()}

    def place(metric: str) -> tuple[bool, bool, float, str]:
        value = averages[metric]
        return not metric.startswith(TRAINED), math.isnan(value), 0.0 if math.isnan(value) else -value, metric

    pairs = sorted({row["language_pair"] for row in rows} - {AVERAGE})
    order = {name: i for i, name in enumerate(STATISTICS)}
    ordered = {name: cells[name] for name in sorted(cells, key=lambda name: order[name])}
    return Benchmark(corpus, aspect, tuple(sorted(averages, key=place)), tuple(pairs), ordered)


def comparisons(found: Gathered, benchmark: Benchmark, role: str) -> list[Row]:
    """Significance records of a benchmark in one role, in table order of their metrics."""
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
    return text


def _difference(record: Row, words: str) -> str:
    points = 100 * record["difference"]
    direction = "higher" if points >= 0 else "lower"
    p_value = record["p_value"]
    sure = "" if p_value is None else f", {p_text(p_value)}"
    return f"That is {abs(points):.1f} points {direction} {words}{sure}."


def p_text(value: float | None) -> str:
    """A p-value to three digits, as readers expect it.

    >>> p_text(0.0004), p_text(0.0312)
    ('p < 0.001', 'p = 0.031')
    """
    if value is None:
        return "undefined"
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def chosen_metrics(benchmark: Benchmark) -> list[str]:
    """At most five metrics for charts: the primary, the untrained one, and the baselines that differ most in kind."""
    wanted = [benchmark.primary, UNTRAINED, "bertscore", "chrf++", "sentbleu"]
    found = [metric for metric in wanted if metric in benchmark.metrics]
    return list(dict.fromkeys(metric for metric in found if metric is not None))


@dataclass(frozen=True)
class PublishedRows:
    """Others' numbers for a benchmark: a heading, the language pairs, and (metric, cells), None where not published."""

    heading: str
    second: str
    language_pairs: tuple[str, ...]
    rows: list[tuple[str, list[Published | None]]]


def published(found: Gathered, benchmark: Benchmark) -> PublishedRows | None:
    """The paper's table for the WMT campaign that the benchmark is of, or None where it has none."""
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
            "  ".join([f"{'metric':<24}", *(f"{name:<20}" for name in _named(benchmark))]).rstrip(),
        ]
        for metric in benchmark.metrics:
            cells = [benchmark.average(statistic, metric) for statistic in benchmark.cells]
            texts = [f"{cell.text:>5} ({cell.range})" if cell else "" for cell in cells]
            lines.append("  ".join([f"{metric:<24}", *(f"{text:<20}" for text in texts)]).rstrip())
        blocks.append("\n".join([*lines, "", summary(found, benchmark)]))
    return "\n\n".join(blocks or ["Nothing was evaluated."])


def pairs_text(found: Gathered, benchmark: Benchmark) -> str:
    """How many language pairs are averaged, in words."""
    left = {record["language_pair"] for record in _left_out(found, benchmark)}
    count = len(set(benchmark.language_pairs) - left)
    return "1 language pair" if count == 1 else f"{count} language pairs"


def _named(benchmark: Benchmark) -> list[str]:
    return [STATISTICS[statistic] for statistic in benchmark.cells]


def demonstration(found: Gathered, marks: Sequence[Benchmark]) -> list[str]:
    """Why the numbers show that the pipeline works and nothing more, one sentence a reason; empty where they may count.

    A corpus is the project's own by its path, whatever its name.
    """
    corpora = {corpus["name"]: corpus for corpus in found.params["collect"].get("corpora", [])}
    ours = [mark.corpus for mark in marks if _is_sample(corpora.get(mark.corpus, {}))]
    reasons = ["The run is small: few sentences, few training steps."] if found.profile == "embedded" else []
    if ours:
        reasons.append(f"The ratings of {', '.join(dict.fromkeys(ours))} were written by the project itself.")
    return reasons


def _is_sample(corpus: Row) -> bool:
    return any(PurePosixPath(part["path"]).is_relative_to(SAMPLE) for part in corpus.get("parts", []))


def left_out(found: Gathered, benchmark: Benchmark) -> list[str]:
    """Language pairs that the averages leave out, each with the reason."""
    return [f"{record['language_pair']} ({record['reason']})" for record in _left_out(found, benchmark)]


def _left_out(found: Gathered, benchmark: Benchmark) -> list[Row]:
    wanted = (benchmark.corpus, benchmark.aspect)
    return [record for record in found.method.get("left_out", []) if (record["corpus"], record["aspect"]) == wanted]


def signal_name(column: str, pivots: Sequence[str]) -> str:
    """A signal column in words, with the pivot's language in place of its number.

    >>> signal_name("backtranslation_2_reference_candidate", ("fr", "de"))
    'backtranslation de reference candidate'
    """
    words = column.split("_")
    if words[0] == "backtranslation" and words[1].isdigit() and int(words[1]) <= len(pivots):
        words[1] = pivots[int(words[1]) - 1]
    return " ".join(words)


def pivots(found: Gathered) -> list[str]:
    """The pivots of the backtranslation likelihoods, in the order of the signal's columns."""
    keys = [key.split(".") for key in found.params["label"] if key.startswith("backtranslation.pivots.")]
    return list(dict.fromkeys(key[2] for key in keys))
