"""Reads what the stages left behind. Anything may be absent: it is then named in `missing`, and the report says so."""

import json
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.core.closure import ROOT
from pipeline.core.errors import InputError, ParamsError
from pipeline.core.params import STAGES, load_key
from pipeline.core.records import AGREEMENT, PREDICTIONS, RATINGS, SIGNAL_COLUMNS
from pipeline.core.runtime import TIMES
from pipeline.core.shards import read_rows

Row = dict[str, Any]


@dataclass(frozen=True)
class Folders:
    """The stages' output folders that the report reads; any may be absent."""

    extract: Path
    perturb: Path
    label: Path
    collect: Path
    pretrain: Path
    grade: Path
    finetune: Path
    evaluate: Path


@dataclass(frozen=True)
class StageCount:
    """Rows that went into a stage, came out of it, and were dropped, by reason (law 6)."""

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


@dataclass(frozen=True)
class Cost:
    """What a stage's last run took here: wall-clock and CPU seconds, and its largest process in bytes."""

    stage: str
    seconds: float
    cpu_seconds: float
    peak_bytes: int


@dataclass
class Gathered:
    """Everything that the report shows, as far as it exists."""

    profile: str
    params: dict[str, dict[str, Any]]
    commit: str | None
    counts: list[StageCount] = field(default_factory=list)
    trainings: list[Training] = field(default_factory=list)
    costs: list[Cost] = field(default_factory=list)
    agreement: list[Row] = field(default_factory=list)
    significance: list[Row] = field(default_factory=list)
    method: dict[str, Any] = field(default_factory=dict)
    test_rows: list[Row] = field(default_factory=list)
    predictions: dict[str, dict[str, float]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def gather(params_file: Path, folders: Folders) -> Gathered:
    """Read params.yaml and all folders; absent ones are listed in `missing`, damaged files are InputErrors."""
    variants = [str(variant) for variant in load_key(params_file, "variants")]
    found = Gathered(str(load_key(params_file, "profile")), read_sections(params_file), commit())
    found.missing = [f"{stage}: {folder}" for stage, folder in vars(folders).items() if not folder.is_dir()]
    found.counts = list(_counts(folders, variants))
    found.trainings = [
        training
        for stage, folder in (("pretrain", folders.pretrain), ("finetune", folders.finetune))
        for training in _trainings(stage, folder, variants)
    ]
    found.costs = list(costs(folders, variants))
    if folders.evaluate.is_dir():
        found.agreement = list(read_rows(folders.evaluate / "agreement", AGREEMENT))
        found.significance = _read_json(folders.evaluate / "significance.json")
        found.method = _read_json(folders.evaluate / "method.json")
        for row in read_rows(folders.evaluate / "predictions", PREDICTIONS):
            found.predictions.setdefault(row["metric"], {})[row["rating_id"]] = row["score"]
    if folders.collect.is_dir():
        found.test_rows = [row for row in read_rows(folders.collect, RATINGS) if row["split"] == "test"]
    return found


def read_sections(params_file: Path) -> dict[str, dict[str, Any]]:
    """Stage -> its parameters under the chosen profile, nested keys joined with dots."""
    own = load_key(params_file, "profiles")[load_key(params_file, "profile")] or {}
    return {stage: _flat(_optional(params_file, stage)) | _flat(own.get(stage) or {}) for stage in STAGES}


def _optional(params_file: Path, key: str) -> dict[str, Any]:
    try:
        return load_key(params_file, key) or {}
    except ParamsError:
        return {}  # a section may stand in the profile alone


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def commit() -> str | None:
    """The project's git commit, with "+ changes" where tracked files differ from it; None outside a repository."""
    try:
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
        code = ["git", "status", "--porcelain", "--untracked-files=no", "--", "pipeline", "params.yaml", "dvc.yaml"]
        changed = subprocess.run(code, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return head.stdout.strip() + (" + changes" if changed.stdout.strip() else "")


def _counts(folders: Folders, variants: Sequence[str]) -> Iterable[StageCount]:
    yield from _count("extract", folders.extract)
    yield from _count("perturb", folders.perturb)
    for signal in SIGNAL_COLUMNS:
        yield from _count(f"label {signal}", folders.label / signal)
    for variant in variants:
        yield from _count(f"pretrain {variant}", folders.pretrain / variant)
    yield from _count("collect", folders.collect)
    yield from _count("grade", folders.grade)
    for variant in variants:
        yield from _count(f"finetune {variant}", folders.finetune / variant)
    yield from _count("evaluate", folders.evaluate)


def _count(stage: str, folder: Path) -> Iterable[StageCount]:
    file = folder / "counts.json"
    if file.exists():
        values = _read_json(file)
        yield StageCount(stage, values["rows_in"], values["rows_out"], values["dropped"])


def _trainings(stage: str, folder: Path, variants: Sequence[str]) -> Iterable[Training]:
    """Runs of `variants` alone: DVC leaves the folders of variants that params.yaml no longer names."""
    for variant in variants:
        file = folder / variant / "training.json"
        if file.exists():
            values = _read_json(file)
            yield Training(stage, variant, values.pop("steps"), values)


def costs(folders: Folders, variants: Sequence[str]) -> Iterable[Cost]:
    """The last line of TIMES for each folder that the report reads, in the order of the stages.

    A line that a kill cut short is left out.
    """
    lines = TIMES.read_text(encoding="utf-8").splitlines(keepends=True) if TIMES.exists() else []
    lines = [line for line in lines if line.endswith("}\n")]
    last = {Path(line["out"]): line for line in map(json.loads, lines)}
    for stage, folder in vars(folders).items():
        for out in sorted(last):
            if out == folder or (out.parent == folder and out.name in {*SIGNAL_COLUMNS, *variants}):
                name = stage if out == folder else f"{stage} {out.name}"
                yield Cost(name, last[out]["seconds"], last[out]["cpu_seconds"], last[out]["peak_bytes"])


def _read_json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError("no such file", file=file) from error
    except ValueError as error:
        raise InputError(f"not valid JSON ({error})", file=file) from error
