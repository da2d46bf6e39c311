"""Paired tests: values by hand, scipy's exact test, block sizes, ties."""

import math

import numpy
import pytest
from scipy import stats

from pipeline.statistics import system_comparison as paired
from pipeline.statistics.system_comparison import (
    Settings,
    compare_scores,
    most_changed,
    randomise,
    resampled_means,
    shares,
)

SETTINGS = Settings(resamples=400, permutations=4000, confidence=0.95, tie_width=1.0, seed=1)


def test_randomisation_of_the_worked_example() -> None:
    assert randomise(numpy.array([1.0, 0.0, 2.0]), 20_000, seed=3) == pytest.approx(0.5, abs=0.015)


def test_randomisation_agrees_with_scipys_exact_test() -> None:
    differences = numpy.array([0.3, 0.1, -0.2, 0.5, 0.4, 0.2, -0.1, 0.35, 0.15, 0.05])
    exact = stats.permutation_test((differences,), numpy.mean, permutation_type="samples", n_resamples=math.inf).pvalue
    assert exact == 46 / 1024
    assert randomise(differences, 100_000, seed=1) == pytest.approx(exact, abs=0.002)


def test_equal_systems_do_not_differ() -> None:
    same = compare_scores(numpy.tile(numpy.array([0.1, 0.7, 0.4]), (2, 1)), SETTINGS).differences[0]
    assert (same.mean, same.p_bootstrap, same.p_randomisation) == (0.0, 1.0, 1.0)
    assert (same.better, same.worse, same.tied) == (0.0, 0.0, 1.0)
    assert (same.interval.low, same.interval.high) == (0.0, 0.0)


def test_a_constant_gain_is_certain() -> None:
    base = numpy.linspace(0, 1, 50)
    gain = compare_scores(numpy.stack([base, base + 2]), SETTINGS).differences[0]
    assert gain.mean == pytest.approx(2.0)
    assert gain.interval.low == pytest.approx(2.0) and gain.interval.high == pytest.approx(2.0)
    assert gain.p_bootstrap == pytest.approx(2 / 401) and gain.p_randomisation == 1 / 4001
    assert (gain.better, gain.worse, gain.tied) == (1.0, 0.0, 0.0)


def test_the_bootstrap_interval_has_the_normal_width() -> None:
    scores = numpy.random.default_rng(5).normal(3.0, 1.0, size=(1, 400))
    standing = compare_scores(scores, Settings(4000, 10, 0.95, 0.0, 1)).standings[0]
    half = 1.96 * scores.std() / 20
    assert standing.mean == pytest.approx(scores.mean())
    assert standing.interval.low == pytest.approx(scores.mean() - half, abs=0.01)
    assert standing.interval.high == pytest.approx(scores.mean() + half, abs=0.01)


def test_systems_share_their_resamples() -> None:
    base = numpy.random.default_rng(2).normal(size=30)
    first, second = resampled_means(numpy.stack([base, base + 0.25]), 50, seed=1)
    numpy.testing.assert_allclose(second - first, 0.25)


def test_the_size_of_a_block_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = numpy.random.default_rng(9).normal(size=(3, 17))
    whole = compare_scores(scores, SETTINGS)
    monkeypatch.setattr(paired, "BLOCK_NUMBERS", 40)
    blocks = compare_scores(scores, SETTINGS)
    for left, right in zip(whole.differences, blocks.differences, strict=True):
        assert (left.p_bootstrap, left.p_randomisation) == (right.p_bootstrap, right.p_randomisation)
        assert left.interval.low == pytest.approx(right.interval.low, abs=1e-12)


def test_one_segment_is_not_tested() -> None:
    outcome = compare_scores(numpy.array([[1.0], [3.0]]), SETTINGS)
    assert outcome.differences[0].mean == 2.0 and outcome.differences[0].better == 1.0
    undefined = [outcome.standings[0].interval.low, outcome.differences[0].interval.high]
    undefined += [outcome.differences[0].p_bootstrap, outcome.differences[0].p_randomisation_holm]
    assert all(math.isnan(value) for value in undefined)


def test_a_difference_of_the_tie_width_is_a_tie() -> None:
    assert shares(numpy.array([0.5, -0.5, 0.75, -0.75, 0.0]), 0.5) == (0.2, 0.2, 0.6)


def test_most_changed_segments_come_largest_first() -> None:
    assert most_changed(numpy.array([0.0, -0.2, 0.2, 0.9, -1.0]), 10) == [4, 3, 1, 2]
