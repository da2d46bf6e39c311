"""Intervals, p-values of resamples and Holm's correction by hand; two metrics against people.

Of two metrics: cases whose p-value is known, and the error rate if there is no difference.
"""

import itertools
import math

import numpy
import pytest
from scipy import stats

from pipeline.statistics.correlation import kendall
from pipeline.statistics.tests import Interval, Paired, holm, interval, paired_bootstrap, paired_permutation, williams


def test_interval_is_the_central_share() -> None:
    assert interval(numpy.arange(101.0), 0.5) == Interval(25.0, 75.0)
    assert interval(numpy.append(numpy.arange(101.0), [numpy.nan] * 5), 0.5) == Interval(25.0, 75.0)


def test_resamples_that_are_mostly_undefined_say_nothing() -> None:
    some = numpy.array([1.0] * 94 + [numpy.nan] * 6)
    assert math.isnan(interval(some, 0.5).low) and math.isnan(paired_bootstrap(some))


def test_interval_of_nothing_is_undefined() -> None:
    bounds = interval(numpy.array([numpy.nan]), 0.9)
    assert math.isnan(bounds.low) and math.isnan(bounds.high)


def test_paired_bootstrap_is_two_sided_and_never_zero() -> None:
    assert paired_bootstrap(numpy.array([0.1] * 95 + [-0.1] * 4)) == pytest.approx(2 * 5 / 100)
    assert paired_bootstrap(numpy.array([-0.1] * 95 + [0.1] * 4)) == pytest.approx(2 * 5 / 100)
    assert paired_bootstrap(numpy.full(99, 0.1)) == pytest.approx(2 / 100)
    assert paired_bootstrap(numpy.zeros(99)) == 1.0


def test_paired_bootstrap_of_nothing_is_undefined() -> None:
    assert math.isnan(paired_bootstrap(numpy.full(99, numpy.nan)))


def test_holm_by_hand() -> None:
    assert holm([0.02, 0.01, 0.5, 0.03]) == pytest.approx([0.06, 0.04, 0.5, 0.06])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []
    with_nan = holm([math.nan, 0.02, 0.04])
    assert math.isnan(with_nan[0]) and with_nan[1:] == [0.04, 0.04]


def rows(seed: int, count: int, noise_first: float, noise_second: float) -> Paired:
    rng = numpy.random.default_rng(seed)
    human = rng.normal(size=count)
    first, second = (human + noise * rng.normal(size=count) for noise in (noise_first, noise_second))
    return Paired(human, first, 7 * second, numpy.arange(count))


def test_permutation_agrees_with_all_arrangements_of_six_segments() -> None:
    pair = rows(4, 6, 0.2, 3.0)
    first, second = stats.rankdata(pair.first), stats.rankdata(pair.second)
    differences = []
    for swap in itertools.product([False, True], repeat=6):
        mask = numpy.array(swap)
        one, other = numpy.where(mask, second, first), numpy.where(mask, first, second)
        differences.append(kendall(pair.human, one) - kendall(pair.human, other))
    exact = numpy.mean(numpy.abs(differences) >= abs(differences[0]) - 1e-12)
    found = paired_permutation([pair], 20_000, numpy.random.default_rng(0))
    assert found == pytest.approx(exact, abs=0.02)


def test_permutation_finds_a_large_difference_and_none_between_equals() -> None:
    rng = numpy.random.default_rng(1)
    assert paired_permutation([rows(1, 80, 0.1, 3.0)], 199, rng) == pytest.approx(1 / 200)
    pair = rows(1, 80, 1.0, 1.0)
    same = Paired(pair.human, pair.first, 100 * pair.first, pair.segments)
    assert paired_permutation([same], 199, rng) == 1.0


def test_permutation_rejects_at_its_level_where_two_metrics_are_equally_good() -> None:
    values = [paired_permutation([rows(seed, 40, 1.0, 1.0)], 99, numpy.random.default_rng(seed)) for seed in range(200)]
    # 5% of 200 is 10; a binomial lies within 2 to 20 with probability above 0.997.
    assert 2 <= sum(value <= 0.05 for value in values) <= 20


def test_permutation_swaps_segments_whole() -> None:
    # One segment only: swapping it all gives the mirrored difference, as large as the observed one.
    pair = rows(1, 30, 0.1, 3.0)
    whole = Paired(pair.human, pair.first, pair.second, numpy.zeros(30, dtype=int))
    assert paired_permutation([whole], 99, numpy.random.default_rng(0)) == 1.0


def test_permutations_that_leave_tau_undefined_do_not_count() -> None:
    # Two segments in opposite orders: swapping one makes a metric constant, swapping none or both is as extreme as the
    # observed difference of 2.
    human = numpy.array([1.0, 2.0])
    opposite = Paired(human, human, -human, numpy.arange(2))
    assert paired_permutation([opposite], 99, numpy.random.default_rng(0)) == 1.0


def test_permutation_without_a_language_pair_is_undefined() -> None:
    assert math.isnan(paired_permutation([], 9, numpy.random.default_rng(0)))


def test_permutation_with_a_constant_metric_is_undefined() -> None:
    pair = rows(1, 30, 0.1, 3.0)
    constant = Paired(pair.human, pair.first, numpy.ones(30), pair.segments)
    assert math.isnan(paired_permutation([constant], 9, numpy.random.default_rng(0)))


def test_williams_by_hand() -> None:
    # r 0.8 and 0.6, 0.5 between them, 103 rows: determinant 1 - .64 - .36 - .25 + 2 * .24 = .23;
    # spread 2 * .23 * 102 / 100 + .49 * .125 = .53045; t = .2 * sqrt(102 * 1.5 / .53045) = 3.39663 with 100 degrees.
    expected = 2 * stats.t.sf(0.2 * math.sqrt(102 * 1.5 / 0.53045), 100)
    assert williams(0.8, 0.6, 0.5, 103) == pytest.approx(expected)
    assert williams(0.6, 0.8, 0.5, 103) == pytest.approx(expected)
    assert 0.0009 < expected < 0.0011


def test_williams_at_its_ends() -> None:
    assert williams(0.5, 0.5, 0.3, 50) == 1.0
    assert math.isnan(williams(math.nan, 0.5, 0.3, 50))
    assert math.isnan(williams(0.4, 0.5, 0.3, 3))
