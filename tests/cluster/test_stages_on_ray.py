"""The data stages on a Ray cluster: the files and bytes of a local run, with and without a folder that nodes share."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from tiny_project import data_bytes, write_dump, write_models, write_params

from pipeline.core import work
from pipeline.core.params import load_params
from pipeline.core.work import run_job
from pipeline.extract.extraction import ExtractParams, extract
from pipeline.grade.__main__ import make_job as grade_job
from pipeline.grade.grading import GradeParams
from pipeline.label.__main__ import make_job as label_job
from pipeline.perturb.__main__ import make_job as perturb_job

PARAMS = Path("params.yaml")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tiny models and a small dump in a folder of their own; models are named by their folders in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(work, "WORK", Path(".work"))
    monkeypatch.setenv("BLEURT_WORKERS", "1")
    monkeypatch.setenv("BLEURT_DEVICE", "cpu")
    write_dump(Path("dump.xml"), articles=6, sentences=6)
    write_models(Path("models"))
    write_params(PARAMS)
    document = YAML(typ="safe").load(PARAMS.read_text(encoding="utf-8"))
    tiny = document["profiles"]["tiny"]
    tiny["extract"]["segments"] = 24
    tiny["models"] = json.loads(json.dumps(tiny["models"]).replace("bundled:", "./models/"))
    with PARAMS.open("w", encoding="utf-8") as stream:
        YAML().dump(document, stream)
    return tmp_path


def test_stages_on_ray_give_the_bytes_of_a_local_run(
    project: Path, two_nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments, pairs = Path("local/extract"), Path("local/perturb")
    stages: dict[str, Callable[[Path], object]] = {
        "extract": lambda out: extract(load_params(PARAMS, "extract", ExtractParams), out),
        "perturb": lambda out: run_job(perturb_job(PARAMS, segments), out),
        "grade": lambda out: run_job(grade_job(load_params(PARAMS, "grade", GradeParams), segments), out),
        "entailment": lambda out: run_job(label_job(PARAMS, "entailment", pairs), out),
    }
    monkeypatch.setenv("BLEURT_ENGINE", "local")
    for name, run in stages.items():
        run(Path("local", name))
    shutil.rmtree(work.WORK)
    monkeypatch.setenv("BLEURT_ENGINE", "ray")
    monkeypatch.setenv("RAY_ADDRESS", two_nodes.address)
    for name, files in (("extract", "shared"), ("grade", "shared"), ("entailment", "shared"), ("perturb", "store")):
        monkeypatch.setenv("BLEURT_RAY_FILES", files)
        stages[name](Path("ray", name))
    local = data_bytes(project / "local")
    assert {name.split("/")[0] for name in local} == set(stages)
    assert data_bytes(project / "ray") == local
    for name in stages:
        counts = [(project / engine / name / "counts.json").read_bytes() for engine in ("local", "ray")]
        assert counts[0] == counts[1]
