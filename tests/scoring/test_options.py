"""What the options of speed are worth: every way that this processor has, and how far its scores move."""

from pathlib import Path

import pytest

from pipeline.core import kernels
from pipeline.scoring.options import PLAIN, moved, option_ways


def test_options_are_those_of_the_processor_and_score_alike(
    checkpoint: Path, references: list[str], candidates: list[str]
) -> None:
    able = {"bf16": kernels.has_bf16(), "int8": kernels.has_int8()}
    found = option_ways(str(checkpoint), list(zip(references, candidates, strict=True)))
    assert list(found) == [PLAIN, *(f"--precision {name}" for name in able if able[name])]
    expected = found[PLAIN][1]()
    assert [score() for _, score in found.values()] == [pytest.approx(expected, abs=0.4)] * len(found)


def test_moves_are_those_of_pairs_and_of_agreement() -> None:
    """Pair 2 moves by 1.5 and changes places with pair 3: one of three pairs of pairs disagrees, tau 1/3 after 1."""
    scores = {PLAIN: [0.0, 1.0, 2.0], "other": [0.0, 2.5, 2.0]}
    found = moved(scores, [1.0, 2.0, 3.0])
    other = found["other"]
    assert (other.mean, other.largest, other.kendall) == pytest.approx((0.5, 1.5, -2 / 3))
    assert (found[PLAIN].largest, found[PLAIN].kendall) == (0.0, 0.0)
    assert moved(scores, [1.0, 1.0, 1.0])["other"].kendall is None
