"""MAUVE of systems: copies of the references stand nearest."""

from pathlib import Path

import pytest
from tiny_bert import sentences, tiny_encoder

from pipeline.evaluate.metrics import Level, Texts, known_metrics
from pipeline.evaluate.metrics.mauve import Params

__all__ = ["sentences", "tiny_encoder"]


def test_a_system_that_copies_has_one_and_another_less(
    tiny_encoder: Path, sentences: tuple[list[str], list[str]]
) -> None:
    references = tuple((text,) for text in sentences[0])
    settings = Params(str(tiny_encoder), 3, 5.0, 25, 1)
    for name in ("mauve", "mauve_smoothed"):
        metric = known_metrics()[name]
        assert metric.level is Level.SYSTEM
        found = [
            float(metric.score(Texts(references, (None,) * 30, tuple(given)), settings, 256))
            for given in (sentences[0], ["the the the"] * 30)
        ]
        assert found[0] == pytest.approx(1.0, abs=1e-6)
        assert found[1] < 0.7
        assert "clusters: 3, c 5, 25 mixtures, seed 1" in metric.signature(settings)
