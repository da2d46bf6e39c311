"""Quality drift: the bins, the probabilities and the shares of the paper."""

import random
from collections import Counter

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.collect.corpus import TEST, TRAIN
from pipeline.collect.drift import BINS, bins, keep_probabilities, kept

RATINGS = st.lists(st.floats(-3, 3), max_size=60)
ALPHAS = st.sampled_from([0.0, 0.5, 1.0, 1.5, 3.0])
SIDES = st.sampled_from([TRAIN, TEST])

PAPER = {0.0: 100.0, 0.5: 50.7, 1.0: 30.3, 1.5: 20.4, 3.0: 11.9}
"""alpha -> percent of the 5,344 training records of 2017 that the paper kept (B.3)."""

FAR = 1000.0
"""An alpha that leaves bin 1 alone: 1 / 2^1000 is never drawn."""


def test_ten_ratings_fill_a_bin_each() -> None:
    assert bins([0.9, 0.1, 0.5, 0.2, 0.8, 0.3, 1.0, 0.4, 0.7, 0.6]).tolist() == [9, 1, 5, 2, 8, 3, 10, 4, 7, 6]


def test_bins_are_equal_in_size_not_in_width() -> None:
    assert bins([0.0] + [100.0 + k for k in range(19)]).tolist() == [1 + k // 2 for k in range(20)]


def test_equal_ratings_are_parted_in_the_order_of_the_rows() -> None:
    assert bins([5.0] * 20).tolist() == [1 + k // 2 for k in range(20)]


@given(RATINGS)
def test_bins_are_balanced_and_follow_the_ratings(ratings: list[float]) -> None:
    found = bins(ratings)
    sizes = [Counter(found.tolist())[number] for number in range(1, BINS + 1)]
    assert sum(sizes) == len(ratings)
    assert max(sizes) - min(sizes) <= 1
    ordered = found[numpy.argsort(ratings, kind="stable")]
    assert (numpy.diff(ordered) >= 0).all()


def test_probabilities_by_hand() -> None:
    ratings = [float(k) for k in range(10)]
    train = keep_probabilities(ratings, 3.0, TRAIN)
    assert train[[0, 1, 3, 9]].tolist() == [1.0, 0.125, 0.015625, 0.001]
    test = keep_probabilities(ratings, 0.5, TEST)
    assert test[[9, 6, 1]].tolist() == [1.0, 0.5, 1 / 3]
    assert keep_probabilities(ratings, 2.0, TEST).tolist() == keep_probabilities(ratings, 2.0, TRAIN)[::-1].tolist()


@pytest.mark.parametrize("side", [TRAIN, TEST])
def test_no_skew_keeps_every_row(side: str) -> None:
    assert kept([0.3, -1.0, 2.0, 0.3], 0.0, 1, side).tolist() == [0, 1, 2, 3]


def test_the_worst_tenth_trains_and_the_best_tenth_tests() -> None:
    ratings = [float(k) for k in range(30)]
    random.Random(1).shuffle(ratings)
    assert sorted(ratings[row] for row in kept(ratings, FAR, 1, TRAIN)) == [0.0, 1.0, 2.0]
    assert sorted(ratings[row] for row in kept(ratings, FAR, 1, TEST)) == [27.0, 28.0, 29.0]


@given(RATINGS, ALPHAS, ALPHAS, SIDES, st.integers(0, 99))
def test_a_larger_skew_keeps_a_part_of_what_a_smaller_one_keeps(
    ratings: list[float], one: float, other: float, side: str, seed: int
) -> None:
    less, more = sorted((one, other))
    rows = kept(ratings, less, seed, side).tolist()
    assert set(kept(ratings, more, seed, side).tolist()) <= set(rows)
    assert rows == sorted(set(rows))
    assert set(rows) <= set(range(len(ratings)))


@given(RATINGS, ALPHAS, SIDES, st.integers(0, 99))
def test_only_the_order_of_the_ratings_matters(ratings: list[float], alpha: float, side: str, seed: int) -> None:
    ranks = numpy.empty(len(ratings))
    ranks[numpy.argsort(ratings, kind="stable")] = numpy.arange(len(ratings))
    assert kept(ranks, alpha, seed, side).tolist() == kept(ratings, alpha, seed, side).tolist()


@pytest.mark.parametrize("side", [TRAIN, TEST])
@pytest.mark.parametrize(("alpha", "percent"), PAPER.items())
def test_shares_are_those_of_the_paper(alpha: float, percent: float, side: str) -> None:
    ratings = numpy.random.default_rng(7).normal(size=5344)
    expected = 100 * sum(number**-alpha for number in range(1, BINS + 1)) / BINS
    assert expected == pytest.approx(percent, abs=1.1)
    share = 100 * len(kept(ratings, alpha, 1, side)) / len(ratings)
    assert share == pytest.approx(expected, abs=2.0)  # three standard deviations of the draw


def test_skew_moves_the_mean_apart() -> None:
    ratings = numpy.random.default_rng(7).normal(size=5000)
    train, test = (ratings[kept(ratings, 3.0, 1, side)].mean() for side in (TRAIN, TEST))
    assert train == pytest.approx(-test, abs=0.1)
    assert test > 1.4


def test_seeds_and_sides_draw_apart() -> None:
    ratings = [0.0] * 400
    same = [set(kept(ratings, 1.0, seed, side).tolist()) for seed, side in ((1, TRAIN), (1, TRAIN))]
    assert same[0] == same[1]
    assert kept(ratings, 1.0, 2, TRAIN).tolist() != sorted(same[0])
    mirrored = {399 - row for row in kept(ratings, 1.0, 1, TEST).tolist()}
    assert mirrored != same[0]
