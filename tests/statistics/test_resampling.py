"""Weighted statistics against the plain ones on rows that are repeated as often as their weight."""

import math

import numpy
import pytest

from pipeline.statistics import resampling
from pipeline.statistics.correlation import darr, darr_outcomes, darr_pairs, kendall, pearson, spearman

PLAIN = {
    resampling.weighted_kendall: kendall,
    resampling.weighted_pearson: pearson,
    resampling.weighted_spearman: spearman,
}


def columns(ties: bool) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:
    rng = numpy.random.default_rng(5)
    human = rng.normal(size=40)
    metric = human + rng.normal(size=40)
    if ties:
        human, metric = human.round(), metric.round()
    return human, metric, rng.integers(0, 15, 40)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("weighted", PLAIN)
def test_equals_the_plain_statistic_on_repeated_rows(weighted, ties) -> None:  # type: ignore[no-untyped-def]
    human, metric, segments = columns(ties)
    weights = resampling.segment_weights(segments, 20, numpy.random.default_rng(1))
    expected = []
    for counts in weights:
        rows = numpy.repeat(numpy.arange(40), counts)
        expected.append(PLAIN[weighted](human[rows], metric[rows]))
    assert weighted(human, metric, weights) == pytest.approx(expected, abs=1e-12)


def test_kendall_one_by_one_equals_the_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    human, metric, segments = columns(ties=True)
    weights = resampling.segment_weights(segments, 20, numpy.random.default_rng(1))
    matrix = resampling.weighted_kendall(human, metric, weights)
    monkeypatch.setattr(resampling, "MATRIX_ROWS", 10)
    assert resampling.weighted_kendall(human, metric, weights) == pytest.approx(matrix, abs=1e-12)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("weighted", PLAIN)
def test_a_resample_that_leaves_a_column_constant_is_undefined(weighted) -> None:  # type: ignore[no-untyped-def]
    human, metric = numpy.array([1.0, 2.0, 3.0]), numpy.array([0.1, 0.1, 0.7])
    found = weighted(human, metric, numpy.array([[1, 1, 1], [2, 1, 0], [0, 0, 3]]))
    assert not math.isnan(found[0])
    assert math.isnan(found[1]) and math.isnan(found[2])


def test_pearson_does_not_notice_scale() -> None:
    human, metric, segments = columns(ties=False)
    weights = resampling.segment_weights(segments, 5, numpy.random.default_rng(1))
    plain = resampling.weighted_pearson(human, metric, weights)
    assert resampling.weighted_pearson(human, 1e-14 * metric + 5e-12, weights) == pytest.approx(plain, abs=1e-6)


def test_weighted_darr_counts_a_pair_as_often_as_its_segment() -> None:
    raw = numpy.array([90.0, 60.0, 50.0, 80.0, 40.0])
    metric, segments = numpy.array([5.0, 4.0, 3.0, 1.0, 2.0]), numpy.array([0, 0, 0, 1, 1])
    pairs = darr_pairs(raw, segments, 25)
    outcomes = darr_outcomes(pairs, metric, ties_count=True)
    weights = numpy.array([[1, 1, 1, 1, 1], [2, 2, 2, 0, 0], [1, 1, 1, 3, 3], [0, 0, 0, 0, 0]])
    # Segment 0 gives two agreements, segment 1 one disagreement.
    found = resampling.weighted_darr(pairs, outcomes, weights)
    assert found[:3] == pytest.approx([1 / 3, 1.0, (2 - 3) / 5])
    assert found[0] == pytest.approx(darr(raw, metric, segments, gap=25, ties_count=True).value)
    assert math.isnan(found[3])


def test_segments_are_drawn_whole_and_as_many_as_there_are() -> None:
    segments = numpy.array(["b", "a", "b", "c", "a"])
    weights = resampling.segment_weights(segments, 200, numpy.random.default_rng(0))
    assert weights.shape == (200, 5)
    assert (weights[:, 0] == weights[:, 2]).all() and (weights[:, 1] == weights[:, 4]).all()
    assert (weights[:, 0] + weights[:, 1] + weights[:, 3] == 3).all()
    assert weights[:, 3].mean() == pytest.approx(1.0, abs=0.15)
