"""Files for DVC: reports/metrics.json (`dvc metrics`, `dvc exp show`) and the CSVs of reports/plots (`dvc plots`)."""

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas

from pipeline.core.records import AVERAGE
from pipeline.core.shards import writing
from pipeline.report.gather import Gathered
from pipeline.report.samples import Histogram
from pipeline.report.views import Benchmark, comparisons

P_VALUES = ("p_value", "p_value_holm")


def metrics(found: Gathered, marks: Sequence[Benchmark]) -> dict[str, Any]:
    """Nested numbers: agreement.<corpus>.<aspect>.<metric>.<statistic> in [-1, 1], gains with p-values, rows.

    validation.<variant> is the best validation value of fine-tuning, by which settings are chosen. A statistic that is
    undefined is None (null).
    """
    agreement: dict[str, Any] = {}
    gain: dict[str, Any] = {}
    for benchmark in marks:
        by_metric = {
            metric: {
                statistic: _number(cell.value / 100)
                for statistic in benchmark.statistics
                if (cell := benchmark.average(statistic, metric)) is not None
            }
            for metric in benchmark.metrics
        }
        agreement.setdefault(benchmark.corpus, {})[benchmark.aspect] = by_metric
        gain.setdefault(benchmark.corpus, {})[benchmark.aspect] = {
            record["metric"]: {
                "kendall": record["difference"],
                **{name: record[name] for name in P_VALUES if name in record},
            }
            for record in comparisons(found, benchmark, "without pre-training")
        }
    return {
        "agreement": agreement,
        "gain_of_pretraining": gain,
        "validation": {
            run.variant: _number(run.facts["best_validation"])
            for run in found.trainings
            if run.stage == "finetune" and run.facts.get("best_validation") is not None
        },
        "rows": {count.stage: count.rows_out for count in found.counts},
    }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 6)


def write_plots(
    folder: Path,
    found: Gathered,
    marks: Sequence[Benchmark],
    histograms: Sequence[Histogram],
    calibration: pandas.DataFrame,
) -> None:
    """Write every CSV, one for each variant and signal column, because DVC draws all rows of a file as one series.

    A table without rows still gets its header, so that DVC finds the file that it was promised.
    """
    for run in found.trainings:
        points = pandas.DataFrame(run.points, columns=["step", "loss", "validation"])
        write_csv(folder / run.stage / f"{run.variant}.csv", points)
    write_csv(folder / "calibration.csv", calibration)
    by_pair = found.agreement[found.agreement["language_pair"] != AVERAGE]
    names = ["corpus", "aspect", "metric", "language_pair", "statistic", "value", "low", "high"]
    write_csv(folder / "language_pairs.csv", by_pair[names], undefined="nan")
    write_csv(folder / "kendall.csv", _primary_kendall(marks))
    for one in histograms:
        middles = [round((low + high) / 2, 6) for low, high in pairwise(one.edges)]
        shares = [round(share, 6) for share in one.shares]
        write_csv(folder / "signals" / f"{one.column}.csv", pandas.DataFrame({"value": middles, "share": shares}))


def _primary_kendall(marks: Sequence[Benchmark]) -> pandas.DataFrame:
    """One bar for each language pair, of the metric that the report is about; several benchmarks are named."""
    bars = [
        (pair if len(marks) == 1 else f"{mark.corpus} {mark.aspect} {pair}", _number(cell.value / 100))
        for mark in marks
        for pair in mark.language_pairs
        if mark.primary and (cell := mark.cell("kendall", mark.primary, pair)) is not None
    ]
    return pandas.DataFrame(bars, columns=["language_pair", "kendall"])


def write_csv(file: Path, table: pandas.DataFrame, undefined: str = "") -> None:
    """Write a CSV with `\\n` line ends; `undefined` stands for NaN."""
    write_text(file, table.to_csv(index=False, lineterminator="\n", na_rep=undefined))


def write_text(file: Path, text: str) -> None:
    """Write UTF-8 text, making its folder; a full disk is a StorageError."""
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
