"""Builders of tiny corpora."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.collect.corpus import Corpus, Part, Split


@pytest.fixture
def corpus() -> Callable[..., Corpus]:
    """A training corpus of one or more paths; keywords replace its fields."""

    def corpus_(layout: str, *paths: Path, **changes: object) -> Corpus:
        fields = {
            "name": "c",
            "layout": layout,
            "parts": tuple(Part(path=str(path)) for path in paths),
            "language_pairs": ("*",),
            "years": (),
            "split": Split.TRAIN,
            "test_fraction": None,
            "scale": {"own": 100.0, "webnlg": 3.0}.get(layout),
        }
        return Corpus(**{**fields, **changes})

    return corpus_
