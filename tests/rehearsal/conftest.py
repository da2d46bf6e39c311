"""The stand-ins of hub and web, made once; and a process that takes the hub on the loopback address for its own."""

import copy
from collections.abc import Callable, Iterator
from pathlib import Path

import huggingface_hub.constants
import pytest
from rehearsal import parts
from rehearsal.hub_server import Hub, serving

from pipeline.core import hub as hubs
from pipeline.core.models import locate

ARTICLES = 300


@pytest.fixture(scope="session")
def stand_ins() -> Hub:
    """Everything that the profile `paper` names; copy it before a fault is set."""
    ratings = {"RicardoRei/wmt-da-human-evaluation": parts.ratings_table()}
    return Hub(models=parts.models(), datasets=ratings, web=parts.web(ARTICLES))


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Hub], Hub]]:
    """Serves a hub, to which this process then turns, with a cache of its own and pauses of no time."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "HF_TOKEN", "BLEURT_MIRROR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(hubs, "WAIT_SECONDS", (0.01, 0.01))
    constants, running = huggingface_hub.constants, []

    def serve(given: Hub) -> Hub:
        hub = Hub(copy.copy(given.models), copy.copy(given.datasets), copy.copy(given.web))
        running.append(serving(hub))
        address = running[0].__enter__()
        template = "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "ENDPOINT", address)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", False)
        monkeypatch.setattr("datasets.config.HF_ENDPOINT", address)
        monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "datasets")
        locate.cache_clear()
        return hub

    yield serve
    locate.cache_clear()
    for one in running:
        one.__exit__(None, None, None)
