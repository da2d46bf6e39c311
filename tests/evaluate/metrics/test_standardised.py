"""all-comb by hand: standardised scores, one for each reference and metric, and YiSi-2."""

from pathlib import Path

import numpy
import pytest

from pipeline.evaluate.metrics import Texts, standardised
from pipeline.evaluate.metrics.standardised import Settled, combined
from pipeline.evaluate.metrics.yisi import Settled as Yisi
from pipeline.evaluate.similarities import Tokens, Vectors

EN = "3 2\na 1 0\nb 3 4\nc 0 1\n"


def test_the_mean_of_standardised_scores() -> None:
    # (1, 3) becomes (-1, 1), (10, 30) too; a constant says nothing.
    found = combined([numpy.array([1.0, 3.0]), numpy.array([10.0, 30.0]), numpy.array([5.0, 5.0])])
    assert found == pytest.approx([-2 / 3, 2 / 3])


def test_each_reference_counts_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "vectors"
    file.write_text(EN, encoding="utf-8")
    one, two = (Yisi(Vectors(str(file), str(file), across, Tokens.BLANKS), 3, 0.8) for across in (False, True))
    lengths = {"a": 1.0, "b": 2.0, "c": 6.0}
    monkeypatch.setattr(
        standardised, "_bleurt", lambda texts, settings, batch: numpy.array([lengths[z] for z in texts.reference])
    )
    texts = Texts((("a", "a"), ("b",), ("c", "b")), ("a", "a", "a"), ("a", "a", "a"))
    found = standardised._score(texts, Settled("none", 128, one, two), 0)
    # First references: YiSi-1 1, 0.6, 0 and BLEURT 1, 2, 6. Second, of the first and third segment: 1, 0.6 and 1, 2.
    # YiSi-2 is 1 for all.
    yisi, bleurt = numpy.array([1, 0.6, 0]), numpy.array([1.0, 2.0, 6.0])
    first = [(column - column.mean()) / column.std() for column in (yisi, bleurt)]
    expected = [
        (first[0][0] + first[1][0] + 1 - 1) / 5,
        (first[0][1] + first[1][1]) / 3,
        (first[0][2] + first[1][2] - 1 + 1) / 5,
    ]
    assert found == pytest.approx(expected)
