"""Reads what the stages left behind. Anything may be absent: then `missing` names it, and the report says so.

What the last run of each stage took, and where, goes to reports/run.html, beside the report and not in it. Times,
devices, versions and the commit differ from run to run while the results stay the same. In the report they would change
its bytes. The page is no output of DVC; the stage writes it anew at every run.
"""

import json
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pandas

from pipeline.core import runtime
from pipeline.core.errors import InputError, ParamsError
from pipeline.core.modules import ROOT
from pipeline.core.params import MODELS, STAGES, load_key, load_models, load_names
from pipeline.core.records import AGREEMENT, CLUSTERS, NO_PAIR, PREDICTIONS, RATINGS
from pipeline.core.shards import read_folder
from pipeline.report.page import render

Row = dict[str, Any]

TEST_COLUMNS = ["rating_id", "corpus", "aspect", "language_pair", "system", "reference", "candidate", "score"]
"""Columns of RATINGS that the report reads from the test rows."""


@dataclass(frozen=True)
class Folders:
    """The stages' output folders that the report reads; any may be absent."""

    extract: Path
    perturb: Path
    label: Path
    pretrain: Path
    collect: Path
    grade: Path
    finetune: Path
    evaluate: Path


@dataclass(frozen=True)
class StageCount:
    """Rows that went into a stage, came out of it, and were dropped, by reason."""

    stage: str
    rows_in: int
    rows_out: int
    dropped: dict[str, int]


@dataclass(frozen=True)
class Training:
    """One training run: `points` hold step, loss and validation (higher is better); the rest as in training.json."""

    stage: str
    variant: str
    points: list[dict[str, float]]
    facts: dict[str, Any]


@dataclass
class Gathered:
    """Everything that the report shows, as far as it exists.

    `agreement` has the columns of AGREEMENT, `clusters` those of CLUSTERS, `test_rows` those of TEST_COLUMNS.
    `predictions` has a row for each rating_id and a column for each metric, NaN if the metric has no score for the row.
    """

    profile: str
    signals: tuple[str, ...]
    variants: tuple[str, ...]
    params: dict[str, dict[str, Any]]
    missing: list[str] = field(default_factory=list)
    counts: list[StageCount] = field(default_factory=list)
    trainings: list[Training] = field(default_factory=list)
    agreement: pandas.DataFrame = field(default_factory=lambda: pandas.DataFrame(columns=AGREEMENT.names))
    clusters: pandas.DataFrame = field(default_factory=lambda: pandas.DataFrame(columns=CLUSTERS.names))
    significance: list[Row] = field(default_factory=list)
    method: dict[str, Any] = field(default_factory=dict)
    test_rows: pandas.DataFrame = field(default_factory=lambda: pandas.DataFrame(columns=TEST_COLUMNS))
    predictions: pandas.DataFrame = field(default_factory=pandas.DataFrame)


@dataclass(frozen=True)
class Cost:
    """A stage's last run here: wall-clock and CPU seconds, its largest process in bytes, and where it trained.

    `training_seconds` are those of the steps and their validation; None if the stage trains nothing.
    """

    stage: str
    seconds: float
    cpu_seconds: float
    peak_bytes: int
    training_seconds: float | None = None
    device: str = ""
    precision: str = ""


NOTED = {field.name for field in fields(Cost)} - {"stage"}
"""The fields of a note that are read."""


def gather(params_file: Path, folders: Folders) -> Gathered:
    """Read params.yaml and all folders; `missing` lists absent ones, damaged files are InputErrors."""
    variants, signals = load_names(params_file, "variants"), load_names(params_file, "signals")
    found = Gathered(str(load_key(params_file, "profile")), signals, variants, read_sections(params_file))
    found.missing = [f"{stage}: {folder}" for stage, folder in vars(folders).items() if not folder.is_dir()]
    found.counts = list(_counts(folders, signals, variants))
    found.trainings = [
        training
        for stage, folder in (("pretrain", folders.pretrain), ("finetune", folders.finetune))
        for training in _trainings(stage, folder, variants)
    ]
    if folders.evaluate.is_dir():
        found.agreement = read_folder(folders.evaluate / "agreement", AGREEMENT).to_pandas()
        found.clusters = read_folder(folders.evaluate / "clusters", CLUSTERS).to_pandas()
        found.significance = _read_json(folders.evaluate / "significance.json")
        found.method = _read_json(folders.evaluate / "method.json")
        scores = read_folder(folders.evaluate / "predictions", PREDICTIONS).to_pandas()
        found.predictions = scores.pivot(index="rating_id", columns="metric", values="score")
    if folders.collect.is_dir():
        found.test_rows = _test_rows(folders.collect)
    return found


def _test_rows(folder: Path) -> pandas.DataFrame:
    ratings = read_folder(folder, RATINGS).select([*TEST_COLUMNS, "split"]).to_pandas()
    test = ratings.loc[ratings["split"] == "test", TEST_COLUMNS]
    return test.fillna({"language_pair": NO_PAIR, "system": ""})


def read_sections(params_file: Path) -> dict[str, dict[str, Any]]:
    """Stage -> its parameters in the chosen profile, with nested keys joined by dots; and the profile's models."""
    own = load_key(params_file, "profiles")[load_key(params_file, "profile")] or {}
    sections = {stage: _flat(_shared(params_file, stage)) | _flat(own.get(stage) or {}) for stage in STAGES}
    return {MODELS: _flat(load_models(params_file))} | sections


def _shared(params_file: Path, stage: str) -> dict[str, Any]:
    try:
        return load_key(params_file, stage) or {}
    except ParamsError:
        return {}  # only the profile has this section


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def _counts(folders: Folders, signals: Sequence[str], variants: Sequence[str]) -> Iterable[StageCount]:
    for stage, folder in vars(folders).items():
        items = {"label": signals, "pretrain": variants, "finetune": variants}.get(stage)
        for item in items or ("",):
            file = folder / item / "counts.json"
            if file.exists():
                values = _read_json(file)
                name = f"{stage} {item}".strip()
                yield StageCount(name, values["rows_in"], values["rows_out"], values["dropped"])


def _trainings(stage: str, folder: Path, variants: Sequence[str]) -> Iterable[Training]:
    """Only runs of `variants`: DVC leaves the folders of variants that params.yaml no longer names."""
    for variant in variants:
        file = folder / variant / "training.json"
        if file.exists():
            values = _read_json(file)
            yield Training(stage, variant, values.pop("steps"), values)


def _read_json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError("no such file", file=file) from error
    except ValueError as error:
        raise InputError(f"not valid JSON ({error})", file=file) from error


def run_page(profile: str, folders: Folders, items: Sequence[str], report_page: str) -> str:
    """The page as HTML, with a relative link to `report_page`; `items`: the signals and variants of params.yaml."""
    machine = runtime.record()
    packages = machine.pop("packages")
    return render(
        "run",
        profile=profile,
        commit=commit(),
        costs=list(costs(folders, items)),
        machine={**machine, **packages},
        report_page=report_page,
    )


def costs(folders: Folders, items: Sequence[str]) -> Iterator[Cost]:
    """The notes of each folder that the report reads, and of its subfolders named in `items`, by stage."""
    notes = runtime.notes()
    for stage, folder in vars(folders).items():
        for out in sorted(notes):
            if (out == folder or (out.parent == folder and out.name in items)) and "seconds" in notes[out]:
                known: dict[str, Any] = {name: value for name, value in notes[out].items() if name in NOTED}
                yield Cost(stage if out == folder else f"{stage} {out.name}", **known)


def commit() -> str | None:
    """The project's git commit, with " + changes" if tracked files differ from it; None outside a repository."""
    try:
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
        code = ["git", "status", "--porcelain", "--untracked-files=no", "--", "pipeline", "params.yaml", "dvc.yaml"]
        changed = subprocess.run(code, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return head.stdout.strip() + (" + changes" if changed.stdout.strip() else "")
