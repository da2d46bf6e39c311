"""tau_23 and acc_23: by hand, against counting, and against mt-metrics-eval."""

import itertools
import math

import numpy
import pytest
from golden_ratings import Golden

from pipeline.statistics.ties import Calibrated, acc_23, best_acc_23, pairs_inside, tau_23

HUMAN, METRIC = numpy.array([1.0, 1.0, 2.0]), numpy.array([3.0, 4.0, 9.0])


def rng() -> numpy.random.Generator:
    return numpy.random.default_rng(1)


def test_three_rows_by_hand() -> None:
    pairs = pairs_inside(numpy.zeros(3), rng())
    assert acc_23(HUMAN, METRIC, pairs) == pytest.approx(2 / 3)
    assert tau_23(HUMAN, METRIC, pairs) == pytest.approx(1 / 3)
    assert best_acc_23(HUMAN, METRIC, pairs) == Calibrated(1.0, 1.0)


def test_ties_of_both_are_right_and_ties_of_one_are_wrong() -> None:
    pairs = pairs_inside(numpy.zeros(2), rng())
    for human, metric, right in (([1, 1], [2, 2], 1), ([1, 2], [2, 2], 0), ([1, 1], [2, 3], 0), ([1, 2], [2, 3], 1)):
        assert acc_23(numpy.array(human), numpy.array(metric), pairs) == right


def test_groups_weigh_the_same_and_those_of_one_row_do_not_count() -> None:
    # group a: one pair, right; group b: three pairs, one right; group c has no pair: (1 + 1/3) / 2
    human = numpy.array([1.0, 2.0, 1.0, 2.0, 3.0, 9.0])
    metric = numpy.array([1.0, 2.0, 2.0, 3.0, 1.0, 0.0])
    pairs = pairs_inside(numpy.array(list("aabbbc")), rng())
    assert len(pairs.first) == 4 and pairs.weight.sum() == pytest.approx(1)
    assert acc_23(human, metric, pairs) == pytest.approx((1 + 1 / 3) / 2)


def test_one_threshold_serves_all_groups() -> None:
    # group 0: tying both pairs up to 1 helps; group 1: people order what the metric has 0.5 apart
    human, metric = numpy.array([1.0, 1.0, 1.0, 2.0]), numpy.array([0.0, 1.0, 0.0, 0.5])
    pairs = pairs_inside(numpy.array([0, 0, 1, 1]), rng())
    assert acc_23(human, metric, pairs) == 0.5
    assert best_acc_23(human, metric, pairs) == Calibrated(0.5, 0.0)


def test_every_threshold_is_tried() -> None:
    draws = rng()
    human, metric, groups = draws.integers(0, 4, 30), draws.normal(size=30), draws.integers(0, 3, 30)
    pairs = pairs_inside(groups, rng())

    def with_threshold(threshold: float) -> float:
        shares = []
        for group in range(3):
            right = [
                numpy.sign(human[i] - human[j])
                == (0 if abs(metric[i] - metric[j]) <= threshold else numpy.sign(metric[i] - metric[j]))
                for i, j in itertools.combinations(numpy.flatnonzero(groups == group), 2)
            ]
            shares.append(numpy.mean(right))
        return float(numpy.mean(shares))

    gaps = [0.0, *numpy.abs(metric[pairs.first] - metric[pairs.second])]
    found = best_acc_23(human, metric, pairs)
    assert found.value == pytest.approx(max(map(with_threshold, gaps)))
    assert with_threshold(found.threshold) == pytest.approx(found.value)
    assert found.value > acc_23(human, metric, pairs)


def test_pairs_are_each_pair_once() -> None:
    groups = rng().integers(0, 5, 40)
    pairs = pairs_inside(groups, rng())
    expected = {(i, j) for i, j in itertools.combinations(range(40), 2) if groups[i] == groups[j]}
    assert sorted(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)) == sorted(expected)


def test_of_too_many_pairs_some_are_drawn() -> None:
    groups = numpy.zeros(300, dtype=int)
    human, metric = rng().integers(0, 5, 300), rng().normal(size=300)
    few = pairs_inside(groups, rng(), most=20_000)
    assert len(few.first) == 20_000 and (few.first < few.second).all()
    assert few.weight.sum() == pytest.approx(1)
    assert acc_23(human, metric, few) == pytest.approx(acc_23(human, metric, pairs_inside(groups, rng())), abs=0.02)


@pytest.mark.filterwarnings("error")
def test_without_a_pair_nothing_is_defined() -> None:
    for groups in (numpy.arange(3), numpy.zeros(0)):
        pairs = pairs_inside(groups, rng())
        human = METRIC[: len(groups)]
        assert math.isnan(acc_23(human, human, pairs)) and math.isnan(tau_23(human, human, pairs))
        assert math.isnan(best_acc_23(human, human, pairs).value)


@pytest.mark.parametrize("averaged", ["none", "sys", "item"])
@pytest.mark.parametrize("metric", ["one", "two"])
def test_numbers_are_those_of_mt_metrics_eval(golden: Golden, metric: str, averaged: str) -> None:
    known = ~numpy.isnan(golden.human)
    human, scores, expected = golden.human[known], golden.metrics[metric][known], golden.expected[metric]
    pairs = pairs_inside(golden.groups(averaged)[known], rng())
    assert tau_23(human, scores, pairs) == pytest.approx(expected[f"tau23/{averaged}"], abs=1e-6)
    assert acc_23(human, scores, pairs) == pytest.approx(expected[f"acc23/{averaged}"], abs=1e-6)
    best = best_acc_23(human, scores, pairs).value
    assert best == pytest.approx(expected[f"acc23_ties_optimised/{averaged}"], abs=1e-6)
