"""Files for DVC: reports/metrics.json (`dvc metrics`, `dvc exp show`) and the CSVs of reports/plots (`dvc plots`)."""

import csv
import io
import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from pipeline.core.errors import StorageError
from pipeline.evaluate.names import AVERAGE
from pipeline.report.gather import Gathered
from pipeline.report.samples import Histogram
from pipeline.report.views import Benchmark, comparisons


def metrics(found: Gathered, marks: Sequence[Benchmark]) -> dict[str, Any]:
    """Nested numbers: agreement.<corpus>.<aspect>.<metric>.<statistic> in [-1, 1], gains, rows, seconds.

    None (null) where a statistic is undefined or a time unknown.
    """
    agreement: dict[str, Any] = {}
    gain: dict[str, Any] = {}
    for benchmark in marks:
        by_metric = {
            metric: {
                statistic: _number(cell.value / 100)
                for statistic in benchmark.cells
                if (cell := benchmark.average(statistic, metric)) is not None
            }
            for metric in benchmark.metrics
        }
        agreement.setdefault(benchmark.corpus, {})[benchmark.aspect] = by_metric
        gain.setdefault(benchmark.corpus, {})[benchmark.aspect] = {
            record["metric"]: {"kendall": record["difference"], "p_value": record["p_value"]}
            for record in comparisons(found, benchmark, "without pre-training")
        }
    return {
        "agreement": agreement,
        "gain_of_pretraining": gain,
        "rows": {count.stage: count.rows_out for count in found.counts},
        "seconds": {f"{run.stage} {run.variant}": run.facts.get("seconds") for run in found.trainings},
    }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 6)


def write_plots(
    folder: Path,
    found: Gathered,
    marks: Sequence[Benchmark],
    histograms: Sequence[Histogram],
    calibration: Sequence[tuple[str, str, float, float]],
) -> None:
    """Write every CSV, one for each variant and signal column: DVC draws all rows of a file as one series.

    One without rows still gets its header, so that DVC finds the file that it was promised.
    """
    for run in found.trainings:
        points = ((p["step"], p["loss"], p.get("validation", "")) for p in run.points)
        write_csv(folder / run.stage / f"{run.variant}.csv", ("step", "loss", "validation"), points)
    write_csv(folder / "calibration.csv", ("corpus", "language_pair", "human", "metric"), calibration)
    agreement = ("corpus", "aspect", "metric", "language_pair", "statistic", "value", "low", "high")
    rows = (tuple(row[name] for name in agreement) for row in found.agreement if row["language_pair"] != AVERAGE)
    write_csv(folder / "language_pairs.csv", agreement, rows)
    write_csv(folder / "kendall.csv", ("language_pair", "kendall"), _primary_kendall(marks))
    for one in histograms:
        middles = (round((low + high) / 2, 6) for low, high in pairwise(one.edges))
        bins = zip(middles, (round(share, 6) for share in one.shares), strict=True)
        write_csv(folder / "signals" / f"{one.column}.csv", ("value", "share"), bins)


def _primary_kendall(marks: Sequence[Benchmark]) -> Iterable[tuple[str, object]]:
    """One bar a language pair, of the metric that the report is about; the corpus is named where there are several."""
    for mark in marks:
        for pair in mark.language_pairs if mark.primary else ():
            value = _number(mark.cells["kendall"][mark.primary or ""][pair].value / 100)
            yield (pair if len(marks) == 1 else f"{mark.corpus} {mark.aspect} {pair}"), "" if value is None else value


def write_csv(file: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a CSV with `\\n` line ends."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    write_text(file, text.getvalue())


def write_text(file: Path, text: str) -> None:
    """Write UTF-8 text, making its folder; a full disk is a StorageError."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"{file}: could not be written, {error.strerror}.") from error
