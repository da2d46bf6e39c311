"""cuBLAS 12 is found where pip puts it, and its absence is no error."""

import ctypes
import sys
from pathlib import Path

import pytest

from pipeline.teachers import cublas


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    cublas.load.cache_clear()


def test_the_package_is_tried_after_the_systems_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "nvidia" / "cublas" / "lib"
    folder.mkdir(parents=True)
    tried: list[str] = []

    def load(name: str, mode: int) -> None:
        tried.append(name)
        if not name.startswith(str(tmp_path)):
            raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", load)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.split(".")[0] == "nvidia"]:
        monkeypatch.delitem(sys.modules, name)
    assert cublas.load()
    assert tried == ["libcublasLt.so.12", str(folder / "libcublasLt.so.12"), str(folder / "libcublas.so.12")]


def test_without_it_nothing_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cublas, "PACKAGE", "no_package_of_this_name.cublas")
    monkeypatch.setattr(cublas, "LIBRARIES", ("libcublas-that-is-not-here.so",))
    assert not cublas.load()
