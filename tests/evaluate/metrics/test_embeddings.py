"""MoverScore: the earth mover's distance between tokens, by hand."""

import math

import pytest
import torch

from pipeline.evaluate.metrics.embeddings import distance
from pipeline.teachers.matching import Matrix


def text(vectors: list[list[float]], weights: list[float]) -> Matrix:
    return Matrix(torch.tensor(vectors), torch.tensor(weights), empty=False)


EAST, NORTH, WEST = [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (text([EAST, NORTH], [1, 1]), text([NORTH, EAST], [2, 2]), 0.0),
        (text([EAST], [1]), text([WEST], [1]), 2.0),
        (text([EAST], [1]), text([EAST, NORTH], [1, 1]), math.sqrt(2) / 2),  # half of the weight goes north
        (text([EAST, NORTH], [3, 1]), text([EAST, NORTH], [1, 3]), math.sqrt(2) / 2),
        (text([EAST, WEST], [1, 0]), text([EAST], [1]), 0.0),
        (text([EAST], [0]), text([EAST], [1]), 2.0),
        (Matrix(torch.tensor([EAST]), torch.tensor([1.0]), empty=True), text([EAST], [1]), 2.0),
    ],
)
def test_distances_by_hand(one: Matrix, other: Matrix, expected: float) -> None:
    assert distance(one, other) == pytest.approx(expected, abs=1e-6)
    assert distance(other, one) == pytest.approx(expected, abs=1e-6)
