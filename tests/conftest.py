"""Fixtures that several test files share."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.core import outputs, runtime, work

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data (layout in README.md, "Real data"); tests that need it skip where it is absent."""
    folder = Path(os.environ.get("BLEURT_TEST_DATA", ROOT / "data" / "real"))
    if not folder.is_dir():
        pytest.skip(f"real data is not here: set BLEURT_TEST_DATA or link {folder}")
    return folder


@pytest.fixture(autouse=True)
def _own_work_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "WORK", tmp_path / ".work")
    monkeypatch.setattr(outputs, "LOCKS", tmp_path / ".work" / "locks")
    monkeypatch.setattr(runtime, "TIMES", tmp_path / ".work" / "times.jsonl")


@pytest.fixture
def write() -> Callable[[Path, str], Path]:
    """Writes text to a file, making its folders."""

    def write_(file: Path, text: str) -> Path:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    return write_
