"""The data stages on a Ray cluster: the files and bytes of a local run, with and without a folder that nodes share."""

import shutil
from pathlib import Path
from typing import Any

import pytest
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
    text = PARAMS.read_text(encoding="utf-8").replace("bundled:", "./models/")
    PARAMS.write_text(text.replace("segments: 60", "segments: 24"), encoding="utf-8")
    return tmp_path


def test_stages_on_ray_give_the_bytes_of_a_local_run(
    project: Path, two_nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments, pairs = Path("local/extract"), Path("local/perturb")

    def stages(out: str, engine: str) -> None:
        monkeypatch.setenv("BLEURT_ENGINE", engine)
        monkeypatch.setenv("BLEURT_RAY_FILES", "shared")
        extract(load_params(PARAMS, "extract", ExtractParams), Path(out, "extract"))
        run_job(grade_job(load_params(PARAMS, "grade", GradeParams), segments), Path(out, "grade"))
        monkeypatch.setenv("BLEURT_RAY_FILES", "store")
        run_job(perturb_job(PARAMS, segments), Path(out, "perturb"))
        run_job(label_job(PARAMS, "entailment", pairs), Path(out, "entailment"))
        shutil.rmtree(work.WORK)

    stages("local", "local")
    monkeypatch.setenv("RAY_ADDRESS", two_nodes.address)
    stages("ray", "ray")
    local = data_bytes(project / "local")
    assert {name.split("/")[0] for name in local} == {"extract", "grade", "perturb", "entailment"}
    assert data_bytes(project / "ray") == local
    for name in ("extract", "grade", "perturb", "entailment"):
        counts = [(project / engine / name / "counts.json").read_bytes() for engine in ("local", "ray")]
        assert counts[0] == counts[1]
