"""Intervals, p-values of resamples, and Holm's correction, by hand."""

import math

import numpy
import pytest

from pipeline.statistics.significance import Interval, holm, interval, paired_bootstrap


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
