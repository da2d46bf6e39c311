"""The profile `paper`, from the hub and the web to the report, with nothing changed but sizes and the environment.

The real models and archives are stood in for by small ones in the same layouts (`rehearsal.parts`), the hub and the web
by a server on this machine. On the way the server is busy, cuts connections and sends damaged weights.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet
import pytest
from dvc.repo import Repo
from dvc.utils.hydra import apply_overrides
from rehearsal import parts
from rehearsal.hub_server import Fault, Hub, serving

ROOT = Path(__file__).resolve().parents[2]
DUMP = "/dumps.wikimedia.org/enwiki/latest/enwiki-latest-pages-articles.xml.bz2"
PIVOTS = {f"{way}.{end}": f"Helsinki-NLP/opus-mt-{pair}@refs/pr/7" for way, end, pair in (
    ("fr", "to", "en-fr"), ("fr", "back", "fr-en"), ("de", "to", "en-de"), ("de", "back", "de-en"))}  # fmt: skip


def sizes(dump: bytes) -> list[str]:
    """Values for `-S`: what a user must fill in (docs/data.md), and sizes for a test."""
    few = {
        "extract.sha256": hashlib.sha256(dump).hexdigest(),
        **{f"models.pivots.{key}": name for key, name in PIVOTS.items()},
        "extract.segments": 24,
        "extract.segments_per_shard": 12,
        "extract.pages_per_chunk": 100,
        "perturb.mask_fill.beam_width": 2,
        **{f"pretrain.schedule.{key}": n for key, n in {"steps": 4, "evaluate_every": 2, "save_every": 4}.items()},
        **{f"finetune.schedule.{key}": n for key, n in {"steps": 4, "evaluate_every": 2, "save_every": 4}.items()},
        "grade.segments": 12,
        "evaluate.resamples": 20,
        "evaluate.permutations": 20,
    }
    shared = {
        "profile": "paper",
        "perturb.backtranslate.beam_width": 1,
        "evaluate.baselines": "[sentbleu,bertscore,yisi2]",
        "evaluate.yisi2.model": "google-bert/bert-base-multilingual-cased",
    }
    return [f"{key}={value}" for key, value in {**shared, **{f"profiles.paper.{k}": v for k, v in few.items()}}.items()]


@pytest.fixture(scope="module")
def hub(stand_ins: Hub) -> Iterator[Hub]:
    found = Hub(stand_ins.models, stand_ins.datasets, stand_ins.web)
    with serving(found):
        yield found


def environment(hub: Hub, folder: Path) -> dict[str, str]:
    """What a user behind a mirror sets, and this test's own: one thread, a cache of its own."""
    mirror = {"HF_ENDPOINT": hub.address, "BLEURT_MIRROR": hub.address, "HF_HUB_OFFLINE": "0"}
    own = {"HF_HOME": str(folder / "cache"), "BLEURT_WORKERS": "1", "BLEURT_DEVICE": "cpu", "OMP_NUM_THREADS": "1"}
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    return {**kept, **mirror, **own, "PYTHONPATH": str(ROOT), "DVC_NO_ANALYTICS": "1", "NO_PROXY": "*"}


def start(hub: Hub, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run Python with `command` in `folder`."""
    words = [sys.executable, *command]
    return subprocess.run(words, cwd=folder, env=environment(hub, folder), capture_output=True, text=True)


@pytest.fixture(scope="module")
def project(hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The profile `paper`, run to the report through a bad day of the net."""
    folder = tmp_path_factory.mktemp("paper")
    for name in ("dvc.yaml", "params.yaml"):
        shutil.copy(ROOT / name, folder)
    apply_overrides(folder / "params.yaml", sizes(hub.web[DUMP]))
    Repo.init(str(folder), no_scm=True).close()
    hub.faults = [
        Fault(r"latest-pages-articles", cut_after=4000, times=2),
        Fault(r"newstest2018-humaneval", status=503),
        Fault(r"/api/models/google-bert/bert-base-uncased", status=503),
        Fault(r"/large/", spoil=True),
        Fault(r"/large/", cut_after=10_000, times=1),
    ]
    done = start(hub, folder, str(Path(__file__).with_name("run_stages.py")))
    (folder / "log.txt").write_text(done.stdout + done.stderr, encoding="utf-8")
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return folder


def test_the_report_compares_metrics_on_every_test(project: Path) -> None:
    assert "bleurt/all" in (project / "reports/report.html").read_text(encoding="utf-8")
    agreement = pyarrow.parquet.read_table(project / "data/evaluate/agreement").to_pylist()
    compared = {(row["corpus"], row["metric"]) for row in agreement}
    metrics = ("bleurt/all", "bleurt/none", "sentbleu", "bertscore", "yisi2")
    years = ("wmt17", "wmt18", "wmt19")
    assert {(year, metric) for year in years for metric in metrics} <= compared
    assert {("webnlg17", "bleurt/all"), ("webnlg17", "bertscore")} <= compared


def test_every_corpus_is_read_whole(project: Path) -> None:
    counts = json.loads((project / "data/collect/counts.json").read_text(encoding="utf-8"))["by_corpus"]
    assert {name: one["rows_in"] for name, one in counts.items()} == {
        **dict.fromkeys(("wmt15", "wmt16"), 2 * parts.SEGMENTS),
        **dict.fromkeys(("wmt17", "wmt18", "wmt19"), 2 * 3 * parts.SEGMENTS),
        "webnlg17": 3 * 3 * parts.SEGMENTS,
    }
    assert all(one["dropped"] == {} for one in counts.values())


def test_bertscore_is_that_of_bert_large_at_its_tuned_layer(project: Path) -> None:
    method = (project / "data/evaluate/method.json").read_text(encoding="utf-8")
    assert "google-bert/bert-large-uncased, layer 18" in method
    shards = sorted((project / "data/label/bertscore").glob("*.parquet"))
    assert (
        sum(len(pyarrow.parquet.read_table(shard)) for shard in shards)
        == json.loads((project / "data/perturb/counts.json").read_text(encoding="utf-8"))["rows_out"]
    )


def test_what_was_cut_was_continued_and_what_was_damaged_is_not_kept(project: Path, hub: Hub) -> None:
    assert [fault for fault in hub.faults if fault.times] == []
    assert [line.split()[2] for line in hub.asked if DUMP in line] == ["bytes=0-", "bytes=4000-", "bytes=8000-"]
    left = [file for file in project.rglob("*") if file.suffix in (".part", ".incomplete", ".version", ".tmp")]
    assert left == []


def test_only_what_is_read_was_asked_for(hub: Hub, project: Path) -> None:
    assert hub.times_asked(r"\.bin|\.h5|\.ot|mlpackage|README") == 0
    assert {line for line in hub.unknown if not line.startswith("GET /api/agent")} == set()
