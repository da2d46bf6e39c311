"""`bleurt preflight` on the profile `paper` as it stands, and as a user must fill it in."""

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from dvc.utils.hydra import apply_overrides
from rehearsal.hub_server import Fault, Hub, Repository

from pipeline.core.modules import ROOT
from pipeline.files import download
from pipeline.scoring.__main__ import main

OPUS = {f"{way}.{end}": f"Helsinki-NLP/opus-mt-{pair}" for way, end, pair in (
    ("fr", "to", "en-fr"), ("fr", "back", "fr-en"), ("de", "to", "en-de"), ("de", "back", "de-en"))}  # fmt: skip


@pytest.fixture
def hub(served: Callable[[Hub], Hub], stand_ins: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Hub:
    """The hub and the web of the profile; the folder that holds params.yaml."""
    found = served(stand_ins)
    monkeypatch.setenv("BLEURT_MIRROR", found.address)
    monkeypatch.setattr(download, "WAIT_SECONDS", ())
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "params.yaml", tmp_path)
    apply_overrides(tmp_path / "params.yaml", ["profile=paper"])
    return found


def fill_in(hub: Hub, *more: str) -> None:
    """What docs/data.md asks a user to fill in."""
    dump = next(content for path, content in hub.web.items() if path.startswith("/dumps"))
    pivots = [f"profiles.paper.models.pivots.{key}={name}@refs/pr/7" for key, name in OPUS.items()]
    given = [f"profiles.paper.extract.sha256={hashlib.sha256(dump).hexdigest()}", *pivots, *more]
    apply_overrides(Path("params.yaml"), given)


def preflight(capsys: pytest.CaptureFixture[str]) -> tuple[int, str, list[str]]:
    """Exit code, table with notes, and the lines that say what lacks."""
    code = main(["preflight"])
    shown = capsys.readouterr()
    return code, shown.out, [line for line in shown.err.splitlines() if line.startswith("lacks")]


def test_what_the_profile_lacks_is_named(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, lacking = preflight(capsys)
    assert code == 1
    assert [line.split(": ")[1] for line in lacking] == [
        "https://dumps.wikimedia.org/enwiki/latest/enwiki-latest-pages-articles.xml.bz2",
        *OPUS.values(),
    ]
    assert "a URL needs its SHA-256 in 64 hexadecimal digits" in lacking[0]
    assert all("holds no *.safetensors file" in line for line in lacking[1:])


def test_a_profile_that_is_filled_in_is_found_whole_and_hardly_anything_is_fetched(
    hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    fill_in(hub)
    code, table, lacking = preflight(capsys)
    assert (code, lacking) == (0, [])
    encoder = next(
        line for line in table.splitlines() if line.split()[:2] == ["found", "google-bert/bert-base-uncased"]
    )
    assert encoder.endswith("perturb.mask_fill.model, pretrain.encoder, evaluate.yisi1.model")
    assert "collect.webnlg17" in table and "collect.wmt19" in table
    commit = hub.models["google-bert/bert-base-uncased"].commit("main")
    assert f"may move; pin it as google-bert/bert-base-uncased@{commit}" in table
    assert not [
        line
        for line in hub.asked
        if (line.startswith("GET /google") and "bytes=0-" not in line) or ("/resolve/" in line and ".spm" in line)
    ]
    assert not Path(".work").exists()


def test_a_pinned_model_needs_no_advice(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    name = "google-bert/bert-base-uncased"
    fill_in(hub, f"profiles.paper.models.encoder={name}@{hub.models[name].commit('v0')}")
    assert f"pin it as {name}@" in preflight(capsys)[1]  # of the mask filler
    apply_overrides(Path("params.yaml"), [f"profiles.paper.models.mask_filler={name}@{hub.models[name].commit('v0')}"])
    assert f"pin it as {name}@" not in preflight(capsys)[1]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"config.json": b'{"id2label": {"0": "LABEL_0"}}'}, "id2label must name entailment, contradiction, neutral"),
        ({"model.safetensors": b"\xff" * 2000}, "neither a local folder nor to be had from the hub"),
        ({"vocab.json": None, "merges.txt": None}, "holds no tokenizer."),
    ],
)
def test_a_model_that_cannot_do_its_work_is_named(
    hub: Hub, capsys: pytest.CaptureFixture[str], change: dict[str, bytes | None], reason: str
) -> None:
    name = "FacebookAI/roberta-large-mnli"
    files = {**hub.models[name].revisions["main"], **change}
    hub.models[name] = Repository({"main": {key: content for key, content in files.items() if content is not None}})
    fill_in(hub)
    code, _, lacking = preflight(capsys)
    assert (code, len(lacking)) == (1, 1)
    assert lacking[0].startswith(f"lacks: {name}: ") and reason in lacking[0]


def test_a_gate_and_a_dead_address_are_named(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    large = "google-bert/bert-large-uncased"
    hub.models[large] = Repository(hub.models[large].revisions, gated=403)
    hub.web = {path: content for path, content in hub.web.items() if "newstest2018" not in path}
    hub.faults = [Fault("webnlg", status=503)]
    fill_in(hub)
    code, _, lacking = preflight(capsys)
    assert code == 1
    assert [line.split(": ")[1].rpartition("/")[2] for line in lacking] == [
        "bert-large-uncased",
        "newstest2018-humaneval.tar.gz",
        "webnlg-human-evaluation-master.tar.gz",
    ]
    assert "only to those who accepted its terms (HTTP 403)" in lacking[0]
    assert "HTTP Error 404" in lacking[1] and "HTTP Error 503" in lacking[2]


def test_without_a_hub_the_default_profile_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preflight", "--params", str(ROOT / "params.yaml")]) == 0
    assert "bundled:entailment@" in capsys.readouterr().out
