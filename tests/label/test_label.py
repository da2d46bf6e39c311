"""The label stage as DVC runs it: worker counts, a kill, code and models in the fingerprint, bad input."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow
import pytest

from pipeline.core.errors import InputError, ModelError, ParamsError
from pipeline.core.modules import ROOT
from pipeline.core.records import PAIRS
from pipeline.core.shards import list_shards, read_folder, shard_name, table_of, write_shard
from pipeline.core.work import fingerprint
from pipeline.label.__main__ import make_job
from pipeline.label.labelling import label_schema, load_signal

PARAMS = """
profile: tiny
label:
  bleu: {language: en}
  flag: {}
profiles:
  tiny:
    label:
      rouge: {n: 2}
      entailment: {model: ./classifier, batch_tokens: 64}
"""


def command(out: str = "out") -> list[str]:
    stage = [sys.executable, "-m", "pipeline.label", "--params", "params.yaml", "--signal", "bleu"]
    return [*stage, "--pairs", "pairs", "--out", out]


def environment(workers: int) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "BLEURT_WORKERS": str(workers), "OMP_NUM_THREADS": "1"}


def run(folder: Path, *, workers: int, out: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(out), cwd=folder, env=environment(workers), capture_output=True, text=True, check=False
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def labels(folder: Path, name: str) -> pyarrow.Table:
    return read_folder(folder, label_schema(load_signal(name)))


def write_pairs(folder: Path, shards: int, rows: int) -> None:
    nothing = {"pivot": None, "mask_style": None, "masks": None, "dropped_words": 0, "parent_id": None}
    for shard in range(shards):
        named = []
        for row in range(rows):
            texts = {
                "reference": f"segment {shard} has number {row} .",
                "candidate": f"segment {shard} , number {row} !",
            }
            name = f"{shard}-{row}"
            named.append({"pair_id": name, "segment_id": name, "technique": "mask_fill", **texts, **nothing})
        write_shard(folder / shard_name(shard), table_of(named, PAIRS))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with params.yaml and five shards of pairs."""
    (tmp_path / "params.yaml").write_text(PARAMS)
    write_pairs(tmp_path / "pairs", shards=5, rows=40)
    return tmp_path


def kill_after_a_shard(folder: Path) -> int:
    """Start the stage, kill it and its workers as soon as a shard is finished; the number of finished shards."""
    line, quiet = command(), subprocess.DEVNULL
    process = subprocess.Popen(line, cwd=folder, env=environment(1), start_new_session=True, stdout=quiet, stderr=quiet)
    finished, deadline = 0, time.monotonic() + 600  # of a busy machine
    while not finished and time.monotonic() < deadline:
        time.sleep(0.005)
        finished = len(list((folder / ".work" / "label" / "out").glob("*.json")))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return finished


def test_neither_a_kill_nor_the_number_of_workers_changes_a_byte(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text(PARAMS)
    write_pairs(tmp_path / "pairs", shards=6, rows=1500)
    assert 1 <= kill_after_a_shard(tmp_path) < 6
    assert not (tmp_path / "out").exists()
    resumed = run(tmp_path, workers=1, out="out")
    assert resumed.returncode == 0, resumed.stderr
    assert "of 6 shards were finished by an earlier run" in resumed.stdout
    whole = run(tmp_path, workers=2, out="whole")
    assert (whole.returncode, whole.stdout) == (0, "label bleu: 9000 pairs\n"), whole.stderr
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")

    pairs, values = read_folder(tmp_path / "pairs", PAIRS), labels(tmp_path / "out", "bleu")
    assert len(list_shards(tmp_path / "out")) == 6
    assert values.column("pair_id").to_pylist() == pairs.column("pair_id").to_pylist()
    # segment 0 , number 0 ! against segment 0 has number 0 . : 4, 2, 0, 0 of 6, 5, 4, 3
    assert values.column("bleu")[0].as_py() == pytest.approx((5 / 7 * 3 / 6 * 1 / 5 * 1 / 4) ** 0.25, abs=1e-6)


def test_a_user_mistake_ends_with_one_sentence(project: Path) -> None:
    shard = project / "pairs" / shard_name(3)
    shard.write_bytes(shard.read_bytes()[:500])
    done = run(project, workers=1, out="out")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"error: pairs/{shard_name(3)}: not a whole Parquet file (")
    assert "Traceback" not in done.stderr
    assert not (project / "out").exists()


def test_missing_pairs_params_and_models_fail_before_any_work(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    params = Path("params.yaml")
    with pytest.raises(InputError, match=r"^absent: no shard part-\*\.parquet in this folder\.$"):
        make_job(params, "bleu", Path("absent"))
    with pytest.raises(ModelError, match=r"^\./classifier: no such model folder\.$"):
        make_job(params, "entailment", Path("pairs"))
    with pytest.raises(ParamsError, match=r"^params\.yaml: label\.bertscore\.model: missing\.$"):
        make_job(params, "bertscore", Path("pairs"))
    params.write_text(PARAMS.replace("bleu: {language: en}", "bleu: {language: en, order: 4}"))
    with pytest.raises(ParamsError, match=r"^params\.yaml: label\.bleu\.order: unknown key \(known: language\)\.$"):
        make_job(params, "bleu", Path("pairs"))


def test_shards_are_remade_when_the_model_params_or_pairs_change(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    params, pairs = Path("params.yaml"), Path("pairs")
    Path("classifier").mkdir()
    Path("classifier/model.safetensors").write_bytes(b"1")
    names = {
        signal_name: fingerprint(make_job(params, signal_name, pairs), 0) for signal_name in ("entailment", "rouge")
    }
    assert fingerprint(make_job(params, "entailment", pairs), 0) == names["entailment"]
    Path("classifier/model.safetensors").write_bytes(b"2")
    assert fingerprint(make_job(params, "entailment", pairs), 0) != names["entailment"]
    assert fingerprint(make_job(params, "rouge", pairs), 0) == names["rouge"]
    assert fingerprint(make_job(params, "rouge", pairs), 1) != names["rouge"]
    params.write_text(PARAMS.replace("n: 2", "n: 1"))
    assert fingerprint(make_job(params, "rouge", pairs), 0) != names["rouge"]
