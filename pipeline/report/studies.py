"""One page of all DVC experiments that differ in one setting: chart, table and a sentence for each study.

`bleurt studies` writes OUT/studies.html (one file that opens offline) and OUT/studies.csv, every point of every chart.
"""

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas

from pipeline.core.errors import InputError
from pipeline.core.records import TRAINED
from pipeline.report.experiments import VARIANTS, Ablation, Cell, Run, Study, ablation, read_runs, studies
from pipeline.report.export import write_csv, write_text
from pipeline.report.page import render
from pipeline.report.study_charts import ablation_section, charts, known_study, spelled

POINT = ["setting", "value", "corpus", "aspect", "metric", "kendall", "pearson"]
"""Columns of studies.csv; Kendall and Pearson x 100."""


def page(runs: Sequence[Run], found: Sequence[Study], ablations: Ablation | None = None) -> str:
    """The page as HTML."""
    shown = [ablation_section(ablations)] if ablations else []
    for study in found:
        known = known_study(study)
        shown.append(
            {
                "title": known.title if known else study.keys[0],
                "differs": known.differs if known else "",
                "setting": ", ".join(_settings(study)),
                "charts": charts(study),
            }
        )
    return render("studies", runs=len(runs), studies=shown)


def _settings(study: Study) -> list[str]:
    """The settings that differ, and those that tell the study from others of the same settings."""
    return [*study.keys, *(f"{key}={spelled(value, key)}" for key, value in study.where.items())]


def points(found: Sequence[Study], ablations: Ablation | None) -> pandas.DataFrame:
    """Every point of every chart, with the columns of POINT."""
    rows = [
        (" ".join(_settings(study)), spelled(value, study.keys[0]) if value is None else value, *_point(run, cell))
        for study in found
        for value, run in zip(study.values, study.runs, strict=True)
        for cell in run.kendall
    ]
    rows += [
        (VARIANTS, metric.removeprefix(TRAINED), *_point(run, cell))
        for metric, run in (ablations.runs.items() if ablations else ())
        for cell in run.kendall
        if cell[2] == metric
    ]
    return pandas.DataFrame(rows, columns=POINT, dtype=object)  # values of different settings keep their types


def _point(run: Run, cell: Cell) -> tuple[Any, ...]:
    return *cell, round(run.kendall[cell], 4), round(run.pearson.get(cell, math.nan), 4)


def write_studies(experiments: Path | None, out: Path) -> None:
    """Write the studies of `experiments` to the folder `out` and print how many they are.

    `experiments`: a file with what `dvc exp show --json` printed; None for standard input. Other text, and text without
    a finished experiment, are an InputError.
    """
    text, name = _text(experiments)
    runs = read_runs(text, name)
    if not runs:
        raise InputError("holds no finished experiment", file=name)
    found, ablations = studies(runs), ablation(runs)
    write_csv(out / "studies.csv", points(found, ablations), undefined="nan")
    write_text(out / "studies.html", page(runs, found, ablations))
    print(f"studies: {len(runs)} experiments, {len(found) + bool(ablations)} studies: {out / 'studies.html'}")


def _text(file: Path | None) -> tuple[str, str]:
    """What `file` or standard input holds, and its name."""
    if file is None:
        return sys.stdin.read(), "standard input"
    try:
        return file.read_text(encoding="utf-8"), str(file)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("cannot be read as text", file=file) from error
