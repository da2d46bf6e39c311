"""PERM-BOTH and clusters: against mixed columns made one by one, all arrangements, and mt-metrics-eval."""

import itertools
import math

import numpy
import pytest
from golden_ratings import Golden

from pipeline.statistics.clusters import PermBoth, clusters, perm_both, standardised
from pipeline.statistics.correlation import kendall, pearson
from pipeline.statistics.swaps import Columns, kendall_differences, pearson_differences


def columns(seed: int, count: int, *, ties: bool) -> Columns:
    rng = numpy.random.default_rng(seed)
    human, first, second = rng.integers(0, 5, count).astype(float), rng.normal(size=count), rng.normal(size=count)
    first, second = (first.round(), second.round()) if ties else (first, second)
    return standardised(human, first, second, numpy.arange(count) % 3)


@pytest.mark.parametrize("ties", [False, True])
def test_differences_are_those_of_mixed_columns(ties: bool) -> None:
    found = columns(1, 24, ties=ties)
    kept = numpy.random.default_rng(2).integers(0, 2, (30, 24))

    def by_group(mixed: numpy.ndarray) -> float:
        parts = [pearson(found.human[group::3], mixed[group::3]) for group in range(3)]
        return float(numpy.mean([r for r in parts if not math.isnan(r)]))

    of_kendall, of_pearson = kendall_differences(found, kept), pearson_differences(found, kept)
    for row, tau, r in zip(kept, of_kendall, of_pearson, strict=True):
        one, other = (numpy.where(row == mark, found.first, found.second) for mark in (1, 0))
        assert tau == pytest.approx(kendall(found.human, one) - kendall(found.human, other), abs=1e-12)
        assert r == pytest.approx(by_group(one) - by_group(other), abs=1e-9)


def test_a_group_in_which_a_column_is_constant_does_not_count() -> None:
    human = numpy.array([1.0, 2.0, 3.0, 5.0, 5.0, 5.0, 7.0])
    first, second = numpy.array([1.0, 2, 3, 1, 2, 3, 0]), numpy.array([3.0, 2, 1, 1, 2, 3, 0])
    found = Columns(human, first, second, numpy.array([0, 0, 0, 1, 1, 1, 2]))
    assert pearson_differences(found, numpy.ones((1, 7), dtype=int)) == pytest.approx([2.0])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("differences", [kendall_differences, pearson_differences])
def test_a_constant_metric_is_undefined(differences) -> None:  # type: ignore[no-untyped-def]
    constant = standardised(numpy.arange(5.0), numpy.full(5, 0.1), numpy.arange(5.0), numpy.zeros(5))
    assert math.isnan(differences(constant, numpy.ones((1, 5), dtype=int))[0])
    found = perm_both([constant], differences, 9, numpy.random.default_rng(1))
    assert math.isnan(found.p_value) and math.isnan(found.delta)


def test_the_p_value_is_that_of_all_arrangements() -> None:
    found = columns(3, 8, ties=False)
    all_kept = numpy.array(list(itertools.product([0, 1], repeat=8)))
    observed = pearson_differences(found, numpy.ones((1, 8), dtype=int))[0]
    exact = (pearson_differences(found, all_kept) >= observed - 1e-12).mean()
    sampled = perm_both([found], pearson_differences, 20_000, numpy.random.default_rng(1))
    assert sampled == PermBoth(pytest.approx(observed), pytest.approx(exact, abs=0.01))


def test_equal_metrics_differ_by_chance_alone() -> None:
    found = columns(4, 30, ties=False)
    same = Columns(found.human, found.first, found.first, found.groups)
    assert perm_both([same], kendall_differences, 99, numpy.random.default_rng(1)) == PermBoth(0.0, 1.0)


def test_parts_are_averaged() -> None:
    parts = [columns(5, 20, ties=True), columns(6, 30, ties=True)]
    found = perm_both(parts, kendall_differences, 9, numpy.random.default_rng(1))
    each = [kendall(part.human, part.first) - kendall(part.human, part.second) for part in parts]
    assert found.delta == pytest.approx(numpy.mean(each))
    assert math.isnan(perm_both([], kendall_differences, 9, numpy.random.default_rng(1)).p_value)


def test_clusters_by_hand() -> None:
    p_values = numpy.full((4, 4), numpy.nan)
    p_values[0, 1:], p_values[1, 2:], p_values[2, 3] = [0.3, 0.01, 0.01], [0.2, 0.01], 0.4
    assert clusters(p_values, 0.05) == [1, 1, 2, 2]
    assert clusters(p_values, 0.001) == [1, 1, 1, 1]
    assert clusters(p_values, 0.5) == [1, 2, 3, 4]
    assert clusters(numpy.zeros((0, 0)), 0.05) == []


@pytest.mark.parametrize("averaged", ["none", "item"])
def test_numbers_are_those_of_mt_metrics_eval(golden: Golden, averaged: str) -> None:
    expected = golden.expected[f"perm_both_pearson/{averaged}: one better than two"]
    metrics = golden.metrics["one"], golden.metrics["two"]
    part = standardised(golden.human_complete, *metrics, golden.groups(averaged))
    found = perm_both([part], pearson_differences, 5000, numpy.random.default_rng(1))
    assert found.delta == pytest.approx(expected["delta"], abs=1e-6)
    assert found.p_value == pytest.approx(expected["p"], abs=0.01)
