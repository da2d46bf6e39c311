"""A hub on a bad day: tried again where it may help, one sentence where not, and nothing half-written kept."""

import re
from collections.abc import Callable
from pathlib import Path

import huggingface_hub.constants
import pytest
from rehearsal.hub_server import Fault, Hub, Repository
from safetensors.torch import save
from torch import arange

from pipeline.collect.corpus import Corpus, Part, Split
from pipeline.collect.layouts.hub import load
from pipeline.core import hub as hubs
from pipeline.core.errors import InputError, ModelError
from pipeline.core.models import locate

WEIGHTS = save({"weight": arange(20_000, dtype=float)}, {"format": "pt"})
FILES = {
    "config.json": b'{"model_type": "bert"}',
    "vocab.txt": b"a\n",
    "model.safetensors": WEIGHTS,
    "pytorch_model.bin": b"pickled",
    "onnx/model.safetensors": b"for another program",
}
NAME = "owner/model"


@pytest.fixture
def hub(served: Callable[[Hub], Hub], monkeypatch: pytest.MonkeyPatch) -> Hub:
    """A hub with one model, whose `old` revision has only pickled weights."""
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda seconds: None)
    return served(Hub(models={NAME: Repository({"main": FILES, "old": {"pytorch_model.bin": b"p"}})}))


def blobs(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache").glob("models--*/blobs/*"))


def message(name: str) -> str:
    with pytest.raises(ModelError) as caught:
        locate(name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_only_what_is_read_is_fetched_and_only_once(hub: Hub) -> None:
    folder = locate(NAME)
    assert sorted(file.name for file in folder.iterdir()) == ["config.json", "model.safetensors", "vocab.txt"]
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    asked = len(hub.asked)
    locate.cache_clear()
    assert locate(NAME) == folder
    assert hub.asked[asked:] == ["GET /api/models/owner/model/revision/main"]


def test_a_commit_is_not_even_asked_for_again(hub: Hub) -> None:
    commit = hub.models[NAME].commit("main")
    folder = locate(f"{NAME}@{commit}")
    hub.asked.clear()
    locate.cache_clear()
    assert (locate(f"{NAME}@{commit}"), hub.asked) == (folder, [])


@pytest.mark.parametrize(
    "fault",
    [
        Fault("/api/models/", status=503, times=2),
        Fault("/api/models/", status=429, headers={"Retry-After": "1"}),
        Fault("/resolve/.*config", method="HEAD", status=503),
        Fault("/large/", status=503),
        Fault("/large/", cut_after=50_000, times=2),
        Fault("/large/", cut_after=50_000, reset=True),
        Fault("/large/", spoil=True),
    ],
    ids=["busy", "too many", "busy file", "busy storage", "cut", "reset", "damaged"],
)
def test_what_may_pass_is_tried_again(hub: Hub, tmp_path: Path, fault: Fault) -> None:
    hub.faults = [fault]
    assert (locate(NAME) / "model.safetensors").read_bytes() == WEIGHTS
    assert fault.times == 0
    assert [blob for blob in blobs(tmp_path) if blob.suffix == ".incomplete"] == []


def test_a_cut_download_asks_only_for_the_rest(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "DOWNLOAD_CHUNK_SIZE", 10_000)
    hub.faults = [Fault("/large/", cut_after=50_000)]
    locate(NAME)
    assert [line.split()[2] for line in hub.asked if "/large/" in line and "bytes" in line] == ["bytes=50000-"]


def test_a_slow_hub_is_tried_again(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.2)
    hub.faults = [Fault("/large/", wait_seconds=0.6)]
    assert (locate(NAME) / "model.safetensors").read_bytes() == WEIGHTS


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Fault("/api/models/", status=503, times=99), r"to be had from the hub \(HTTP 503\); give a folder"),
        (Fault("/large/", cut_after=0, reset=True, times=99), r"to be had from the hub \(\w*(Error|Timeout)"),
        (
            Fault("/large/", spoil=True, times=99),
            r"came with SHA-256 \w+, but the hub states \w+; nothing of it is kept",
        ),
    ],
    ids=["busy", "cut", "damaged"],
)
def test_what_does_not_pass_is_one_sentence_and_leaves_no_part(
    hub: Hub, tmp_path: Path, fault: Fault, reason: str
) -> None:
    hub.faults = [fault]
    assert re.search(f"^{NAME}: .*{reason}", message(NAME)), message(NAME)
    assert [blob for blob in blobs(tmp_path) if blob.stat().st_size > 100] == []


@pytest.mark.parametrize("status", [401, 403])
def test_a_gated_model_says_who_may_have_it(hub: Hub, status: int) -> None:
    hub.models[NAME].gated = status
    assert message(NAME) == (
        f"{NAME}: the hub gives it only to those who accepted its terms (HTTP {status}); accept them on its page, then "
        "log in with `hf auth login` or set HF_TOKEN."
    )


def test_a_model_a_revision_and_weights_that_do_not_exist_are_told_apart(hub: Hub) -> None:
    assert message("owner/other") == (
        "owner/other: neither a local folder nor a model of the hub that it shows without (another) login."
    )
    assert message(f"{NAME}@v9") == f"{NAME}@v9: the hub has the model, but no such revision."
    assert message(f"{NAME}@old") == (
        f"{NAME}@old: holds no *.safetensors file; other weight formats are not loaded: name a revision that has one, "
        "such as owner/name@refs/pr/NUMBER, or a folder."
    )


def test_a_listing_says_commit_sizes_and_parameters(hub: Hub) -> None:
    found = hubs.listing(NAME)
    assert found.commit == hub.models[NAME].commit("main")
    assert found.sizes == {name: len(FILES[name]) for name in ("config.json", "vocab.txt", "model.safetensors")}
    assert hubs.parameters(NAME, found) == 20_000
    assert [line.split()[2] for line in hub.asked if "GET /large/" in line] == ["bytes=0-100000"]


TABLE = "RicardoRei/wmt-da-human-evaluation"


def rows(corpus: Callable[..., Corpus], name: str) -> list[tuple[str, str]]:
    return [(one.reference, one.candidate) for one in load(corpus(name)).ratings]


@pytest.fixture
def corpus() -> Callable[[str], Corpus]:
    """A corpus in the layout `hub` of any name."""

    def corpus_(name: str) -> Corpus:
        parts = (Part(path=name),)
        return Corpus("c", "hub", parts, Split.TRAIN, language_pairs=("*",), years=(), test_fraction=None, scale=None)

    return corpus_


def test_a_table_of_ratings_is_read_at_its_revision_from_a_busy_hub(
    served: Callable[[Hub], Hub], stand_ins: Hub, corpus: Callable[[str], Corpus]
) -> None:
    hub = served(stand_ins)
    hub.faults = [Fault("train.csv", status=503), Fault("README", method="HEAD", status=503)]
    first = [("A cat.", "None")]
    assert rows(corpus, TABLE) == [*first, ("A dog.", "A dog.")]
    assert rows(corpus, f"{TABLE}@v1") == first


def test_a_gated_table_says_who_may_have_it(
    served: Callable[[Hub], Hub], stand_ins: Hub, corpus: Callable[[str], Corpus]
) -> None:
    hub = served(stand_ins)
    hub.datasets[TABLE] = Repository(hub.datasets[TABLE].revisions, gated=403)
    with pytest.raises(InputError, match=f"^{TABLE}: the hub gives it only to those who accepted its terms; accept"):
        load(corpus(TABLE))
