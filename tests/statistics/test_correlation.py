"""Correlations against numbers worked by hand and against their definitions by counting."""

import itertools
import math

import numpy
import pytest

from pipeline.statistics.correlation import Darr, darr, darr_pairs, kendall, pearson, spearman

HUMAN = numpy.array([1.0, 2.0, 3.0, 4.0, 5.0])
METRIC = numpy.array([2.0, 1.0, 4.0, 3.0, 5.0])


def test_five_rows_by_hand() -> None:
    # Two of ten pairs are in the wrong order; products about the mean sum to 8 of 10.
    assert kendall(HUMAN, METRIC) == pytest.approx(0.6)
    assert pearson(HUMAN, METRIC) == pytest.approx(0.8)
    assert spearman(HUMAN, METRIC) == pytest.approx(0.8)


def test_five_rows_with_ties_by_hand() -> None:
    # human 1 1 2 3 3, metric 1 2 2 4 3: of ten pairs two tie in human, one in metric. Of the seven others all agree:
    # 7 / sqrt(8 * 9).
    human, metric = numpy.array([1.0, 1, 2, 3, 3]), numpy.array([1.0, 2, 2, 4, 3])
    assert kendall(human, metric) == pytest.approx(7 / math.sqrt(8 * 9))


def test_a_perfect_and_a_reversed_metric() -> None:
    for statistic in (kendall, pearson, spearman):
        assert statistic(HUMAN, 3 * HUMAN - 1) == pytest.approx(1.0)
        assert statistic(HUMAN, -HUMAN) == pytest.approx(-1.0)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("statistic", [kendall, pearson, spearman])
def test_constant_columns_and_single_rows_are_undefined(statistic) -> None:  # type: ignore[no-untyped-def]
    assert math.isnan(statistic(HUMAN, numpy.full(5, 0.3)))
    assert math.isnan(statistic(numpy.full(5, 0.3), METRIC))
    assert math.isnan(statistic(HUMAN[:1], METRIC[:1]))
    assert math.isnan(statistic(HUMAN[:0], METRIC[:0]))


RAW = numpy.array([90.0, 60.0, 50.0, 80.0, 40.0])
SEGMENTS = numpy.array([0, 0, 0, 1, 1])


def test_darr_by_hand() -> None:
    metric = numpy.array([5.0, 4.0, 3.0, 1.0, 2.0])
    assert darr(RAW, metric, SEGMENTS, gap=25, ties_count=True) == Darr(pytest.approx(1 / 3), 3)


def test_darr_ties_of_the_metric_disagree_from_2018_and_are_left_out_before() -> None:
    metric = numpy.array([5.0, 5.0, 3.0, 1.0, 2.0])  # ties on rows (0, 1)
    assert darr(RAW, metric, SEGMENTS, gap=25, ties_count=True) == Darr(pytest.approx(-1 / 3), 3)
    assert darr(RAW, metric, SEGMENTS, gap=25, ties_count=False) == Darr(pytest.approx(0.0), 2)


def test_darr_takes_pairs_within_a_segment_from_the_gap_on_with_the_better_first() -> None:
    pairs = darr_pairs(RAW, SEGMENTS, 30)
    assert sorted(zip(pairs.better.tolist(), pairs.worse.tolist(), strict=True)) == [(0, 1), (0, 2), (3, 4)]
    pairs = darr_pairs(RAW, SEGMENTS, 40.5)
    assert (pairs.better.tolist(), pairs.worse.tolist()) == ([], [])


def test_darr_with_no_gap_skips_equal_ratings_and_unknown_ones() -> None:
    pairs = darr_pairs(numpy.array([50.0, 50.0, numpy.nan, 51.0]), numpy.zeros(4, dtype=int), 0)
    assert sorted(zip(pairs.better.tolist(), pairs.worse.tolist(), strict=True)) == [(3, 0), (3, 1)]


def test_darr_without_a_pair_is_undefined() -> None:
    value = darr(RAW, METRIC, numpy.arange(5), gap=25, ties_count=True)
    assert math.isnan(value.value) and value.pairs == 0


def test_darr_equals_counting_over_interleaved_segments() -> None:
    rng = numpy.random.default_rng(3)
    raw, metric, segments = rng.uniform(0, 100, 60).round(), rng.integers(0, 9, 60) * 1.0, rng.integers(0, 12, 60)
    agree = disagree = 0
    for i, j in itertools.combinations(range(60), 2):
        if segments[i] == segments[j] and abs(raw[i] - raw[j]) >= 25:
            if (raw[i] - raw[j]) * (metric[i] - metric[j]) > 0:
                agree += 1
            else:
                disagree += 1
    found = darr(raw, metric, segments, gap=25, ties_count=True)
    assert found == Darr(pytest.approx((agree - disagree) / (agree + disagree)), agree + disagree)
