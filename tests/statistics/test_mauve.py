"""MAUVE: histograms by hand, clusters that any k-means finds, and the package mauve-text where it is installed."""

import itertools
import math

import numpy
import pytest

from pipeline.statistics.mauve import area, mauve


def clouds(shares: tuple[int, ...], seed: int) -> numpy.ndarray:
    """Points around the axes of a space of 8 dimensions, as many around each as `shares` says; far apart."""
    rng = numpy.random.default_rng(seed)
    centres = numpy.eye(8)[numpy.repeat(numpy.arange(len(shares)), shares)]
    return centres + rng.normal(0, 0.01, centres.shape)


def mauve_of(human: numpy.ndarray, other: numpy.ndarray, clusters: int | None = 4, smoothed: bool = False) -> float:
    return mauve(human, other, clusters=clusters, scale=5.0, mixtures=25, smoothed=smoothed, seed=1)


def test_equal_histograms_have_one_and_disjoint_ones_almost_none() -> None:
    assert area(numpy.array([0.2, 0.8]), numpy.array([0.2, 0.8]), 5.0, 25) == pytest.approx(1.0)
    assert area(numpy.array([1.0, 0.0]), numpy.array([0.0, 1.0]), 5.0, 25) < 0.01


def test_the_area_of_a_coarse_curve_by_hand() -> None:
    # Mixtures of p (1, 0) and q (1/2, 1/2) at the ends and the middle; r = (3/4, 1/4): KL(p, r) = ln 4/3,
    # KL(q, r) = ln(4/3)/2. The ends have KL(q, p) without bounds, KL(p, q) = ln 2, and 0; c 1.
    points = [(0.0, 1.0), (math.exp(-0.5 * math.log(4 / 3)), 3 / 4), (1.0, 1 / 2), (1.0, 0.0)]
    under = sum((x2 - x1) * (y1 + y2) / 2 for (x1, y1), (x2, y2) in itertools.pairwise(points))
    found = area(numpy.array([1.0, 0.0]), numpy.array([0.5, 0.5]), 1.0, 3)
    assert found == pytest.approx(under, abs=2e-3)  # the ends are at 1e-6


def test_clusters_far_apart_give_the_histograms_that_were_made() -> None:
    human, other = clouds((30, 30, 30, 10), 1), clouds((60, 20, 10, 10), 2)
    p, q = numpy.array([0.3, 0.3, 0.3, 0.1]), numpy.array([0.6, 0.2, 0.1, 0.1])
    assert mauve_of(human, other) == pytest.approx(area(p, q, 5.0, 25), abs=1e-9)
    counts = [numpy.array(shares) + 0.5 for shares in ((30, 30, 30, 10), (60, 20, 10, 10))]
    expected = area(counts[0] / counts[0].sum(), counts[1] / counts[1].sum(), 5.0, 25)
    assert mauve_of(human, other, smoothed=True) == pytest.approx(expected, abs=1e-9)


def test_a_tenth_of_the_smaller_set_is_the_number_of_clusters() -> None:
    human, other = clouds((10, 20, 10), 1), clouds((15, 10, 5), 2)
    assert mauve_of(human, other, None) == mauve_of(human, other, 3)


def test_one_text_is_too_few() -> None:
    assert math.isnan(mauve_of(clouds((1,), 1), clouds((5, 5), 2)))


@pytest.mark.parametrize("shares", [((30, 30, 30, 10), (60, 20, 10, 10)), ((50, 0, 30, 20), (0, 50, 30, 20))])
def test_the_package_gives_the_same(shares: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    package = pytest.importorskip("mauve", reason="mauve-text is not installed (pip install 'bleurt-pipeline[mauve]')")
    pytest.importorskip("faiss", reason="mauve-text needs faiss-cpu")
    human, other = clouds(shares[0], 1), clouds(shares[1], 2)
    expected = package.compute_mauve(p_features=human, q_features=other, num_buckets=4, verbose=False)
    assert mauve_of(human, other) == pytest.approx(expected.mauve, abs=1e-3)
    assert mauve_of(human, other, smoothed=True) == pytest.approx(expected.mauve_star, abs=1e-3)
