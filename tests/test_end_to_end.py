"""The whole graph on tiny random models: `dvc repro` from a dump and ratings to the report; kills change nothing."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet
import pytest
from safetensors.torch import load_file
from tiny_project import data_bytes, environment, make_project, run


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_project(tmp_path_factory.mktemp("project"))
    run(folder, "-m", "dvc", "repro")
    return folder


def test_repro_leaves_a_metric_and_a_report(project: Path) -> None:
    assert (project / "models/finetune/all/model.safetensors").stat().st_size > 0
    page = (project / "reports/report.html").read_text(encoding="utf-8")
    assert "<html" in page and "bleurt/all" in page
    assert isinstance(json.loads((project / "reports/metrics.json").read_text(encoding="utf-8")), dict)
    agreement = pyarrow.parquet.read_table(project / "data/evaluate/agreement/part-00000.parquet").to_pylist()
    assert {"bleurt/all", "bleurt/none", "sentbleu", "bertscore"} <= {row["metric"] for row in agreement}


def test_every_row_is_accounted_for(project: Path) -> None:
    for folder in ("data/extract", "data/perturb", "data/label/bleu", "data/collect"):
        counts = json.loads((project / folder / "counts.json").read_text(encoding="utf-8"))
        shards = sorted((project / folder).glob("part-*.parquet"))
        assert counts["rows_in"] == counts["rows_out"] + sum(counts["dropped"].values())
        assert counts["rows_out"] == sum(pyarrow.parquet.ParquetFile(s).metadata.num_rows for s in shards) > 0


def test_a_second_repro_runs_nothing(project: Path) -> None:
    assert "Data and pipelines are up to date." in run(project, "-m", "dvc", "repro").stdout


def test_a_new_variant_runs_only_what_is_new(project: Path, tmp_path: Path) -> None:
    shutil.copytree(project, tmp_path / "copy", symlinks=True)
    params = tmp_path / "copy" / "params.yaml"
    text = params.read_text(encoding="utf-8")
    start = text.index("variants:")
    params.write_text(
        text[:start] + "variants: [all, none, only_bleu]\n" + text[text.index("adapted:") :], encoding="utf-8"
    )
    planned = run(tmp_path / "copy", "-m", "dvc", "repro", "--dry", "pretrain").stdout
    started = [line.split("'")[1] for line in planned.splitlines() if line.startswith("Running stage")]
    assert started == ["pretrain@only_bleu"]


def kill_when(folder: Path, arguments: list[str], sign: str) -> None:
    """Start a stage and kill it, workers included, as soon as a file `sign` lies under .work."""
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment(),
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 600
    while not any((folder / ".work").rglob(sign)):
        assert process.poll() is None and time.monotonic() < deadline, f"{arguments} ended before it could be killed"
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


STAGES = {
    "extract": ([], "*.json"),
    "perturb": (["--segments", "data/extract"], "part-*/*.json"),
    "label/bertscore": (["--signal", "bertscore", "--pairs", "data/perturb"], "*.json"),
    "pretrain/all": (["--variant", "all", "--pairs", "data/perturb", "--labels", "data/label"], "state.pt"),
    "finetune/all": (
        ["--pretrained", "models/pretrain/all", "--ratings", "data/collect", "--graded", "data/grade"],
        "state.pt",
    ),
    "evaluate": (["--ratings", "data/collect", "--metrics", "models/finetune"], "*.json"),
}


@pytest.mark.parametrize("stage", ["extract", "perturb", "label/bertscore", "pretrain/all", "finetune/all", "evaluate"])
def test_a_killed_stage_continues_and_ends_with_the_same_data(project: Path, stage: str) -> None:
    arguments, sign = STAGES[stage]
    name = stage.split("/")[0]
    out = f"{'models' if name in ('pretrain', 'finetune') else 'data'}/{stage}"
    shutil.rmtree(project / ".work", ignore_errors=True)
    untouched = data_bytes(project / out)
    kept = project / "kept"
    shutil.copytree(project / out, kept)
    shutil.rmtree(project / out)
    command = ["-m", f"pipeline.{name}", "--params", "params.yaml", *arguments, "--out", out]
    kill_when(project, command, sign.split("/")[-1])
    assert data_bytes(project / out) == {}
    run(project, *command)
    assert data_bytes(project / out) == untouched
    shutil.rmtree(project / out)
    kept.rename(project / out)


def test_the_number_of_workers_changes_no_byte(project: Path, tmp_path: Path) -> None:
    command = ["-m", "pipeline.perturb", "--params", "params.yaml", "--segments", "data/extract"]
    run(project, *command, "--out", str(tmp_path / "perturb"), BLEURT_WORKERS="2")
    assert data_bytes(tmp_path / "perturb") == data_bytes(project / "data/perturb")


def test_torchrun_trains_one_model_with_two_processes(project: Path, tmp_path: Path) -> None:
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--module"]
    text = (project / "params.yaml").read_text(encoding="utf-8")
    assert text.count("members: 1") == 1
    (tmp_path / "params.yaml").write_text(text.replace("members: 1", "members: 2"), encoding="utf-8")
    inputs = ["--params", str(tmp_path / "params.yaml"), "--pretrained", "models/pretrain/all"]
    inputs += ["--ratings", "data/collect", "--graded", "data/grade"]
    run(project, *torchrun, "pipeline.finetune", *inputs, "--out", str(tmp_path / "two"))
    one, two = (
        json.loads((f / "training.json").read_text()) for f in (project / "models/finetune/all", tmp_path / "two")
    )
    assert [point["step"] for point in two["steps"]] == [point["step"] for point in one["steps"]]
    assert two["steps"][0]["loss"] == pytest.approx(one["steps"][0]["loss"], rel=0.5)
    assert len(two["members"]) == 2
    weights = [load_file(f / "model.safetensors") for f in (project / "models/finetune/all", tmp_path / "two")]
    assert weights[0].keys() == weights[1].keys()
    assert not (project / ".work").exists() or not list((project / ".work").rglob("state.pt"))
