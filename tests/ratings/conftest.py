"""Builders of tiny corpora."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.core import work
from pipeline.ratings.params import Corpus, Layout, Part, Split


@pytest.fixture(autouse=True)
def _own_work_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "WORK", tmp_path / ".work")


@pytest.fixture
def write() -> Callable[[Path, str], Path]:
    """Writes text to a file, making its folders."""

    def write_(file: Path, text: str) -> Path:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    return write_


@pytest.fixture
def corpus() -> Callable[..., Corpus]:
    """A training corpus of one or more paths; keywords replace its fields."""

    def corpus_(layout: Layout, *paths: Path, **changes: object) -> Corpus:
        fields = {
            "name": "c",
            "layout": layout,
            "parts": tuple(Part(str(path), None) for path in paths),
            "language_pairs": ("*",),
            "years": (),
            "split": Split.TRAIN,
            "test_fraction": None,
            "scale": {Layout.OWN: 100.0, Layout.WEBNLG: 3.0}.get(layout),
        }
        return Corpus(**{**fields, **changes})

    return corpus_
