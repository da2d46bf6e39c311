"""Statistics of systems: by hand, and against mt-metrics-eval."""

import math

import numpy
import pytest
from golden_ratings import ITEMS, SYSTEMS, Golden

from pipeline.statistics.correlation import kendall, pearson
from pipeline.statistics.systems import inliers, p_better, pairwise_accuracy, random_signs, soft_pairwise_accuracy


def test_outliers_by_hand() -> None:
    # median 3, distances 2 1 0 1 x; their median is 1, so the limit is 2.5 * 1.483 = 3.7075
    assert inliers(numpy.array([1.0, 2, 3, 4, 6.7])).tolist() == [True] * 5
    assert inliers(numpy.array([1.0, 2, 3, 4, 6.71])).tolist() == [True, True, True, True, False]


def test_without_a_spread_no_system_is_an_outlier() -> None:
    assert inliers(numpy.array([1.0, 1, 1, 9])).all()


def test_pairwise_accuracy_counts_common_ties() -> None:
    assert pairwise_accuracy(numpy.array([1.0, 2, 3]), numpy.array([5.0, 4, 9])) == pytest.approx(2 / 3)
    assert pairwise_accuracy(numpy.array([1.0, 1, 3]), numpy.array([4.0, 4, 4])) == pytest.approx(1 / 3)
    assert math.isnan(pairwise_accuracy(numpy.ones(1), numpy.ones(1)))


def test_p_values_of_all_arrangements() -> None:
    # Differences 1 and 3 of the first system to the second: of the four sums 4, 2, -2, -4 one is at least 4.
    signs = numpy.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
    scores = numpy.array([[2.0, 5.0], [1.0, 2.0]])
    assert p_better(scores, signs).tolist() == [0.25]
    assert p_better(scores[::-1], signs).tolist() == [1.0]  # -4 is as small as can be
    assert soft_pairwise_accuracy(scores, scores[::-1], signs) == pytest.approx(1 - 0.75)


def test_rounding_makes_no_permuted_difference_smaller() -> None:
    scores = numpy.array([[0.1, 0.2, 0.3], [0.3, 0.3, 0.0]])  # sums differ by rounding alone: every arrangement ties
    signs = numpy.array([[1, 1, 1], [-1, -1, -1]])
    assert p_better(scores, signs).tolist() == [1.0]


def test_one_system_or_one_segment_is_too_little() -> None:
    signs = random_signs(10, 1, numpy.random.default_rng(1))
    assert set(numpy.unique(signs)) == {-1.0, 1.0}
    assert math.isnan(soft_pairwise_accuracy(numpy.ones((3, 1)), numpy.ones((3, 1)), signs))
    signs = random_signs(10, 4, numpy.random.default_rng(1))
    assert math.isnan(soft_pairwise_accuracy(numpy.ones((1, 4)), numpy.ones((1, 4)), signs))


@pytest.mark.parametrize("metric", ["one", "two"])
def test_numbers_are_those_of_mt_metrics_eval(golden: Golden, metric: str) -> None:
    human, scores = (v.reshape(SYSTEMS, ITEMS) for v in (golden.human_complete, golden.metrics[metric]))
    expected = golden.expected[metric]
    means = human.mean(axis=1), scores.mean(axis=1)
    assert pearson(*means) == pytest.approx(expected["system_pearson"], abs=1e-6)
    assert kendall(*means) == pytest.approx(expected["system_kendall_b"], abs=1e-6)
    assert pairwise_accuracy(*means) == pytest.approx(expected["system_pairwise_accuracy"], abs=1e-6)
    signs = random_signs(1000, ITEMS, numpy.random.default_rng(4))
    assert soft_pairwise_accuracy(human, scores, signs) == pytest.approx(expected["spa_1000_seed4"], abs=1e-6)
