"""P(A better than B): the slope by hand and against its definition, which rows are pairs, the calibration error."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy
import pytest
from scipy.optimize import brentq

from pipeline.collect.corpus import Corpus, Part, Split
from pipeline.collect.gather import cleaned, load
from pipeline.scoring.calibration import preference
from pipeline.scoring.preference import (
    LEAST_PAIRS,
    NEIGHBOURS,
    SAME_LANGUAGE_PAIR,
    Pairs,
    calibration_error,
    error_by_chance,
    fit_slope,
    held_out_probabilities,
    probabilities,
    rated_pairs,
    with_rivals,
)


def row(number: int, **values: Any) -> dict[str, Any]:
    """A rated row; `values` replace what is the same in all."""
    return {
        "corpus": "sample", "split": "validation", "reference": "the cat", "candidate": f"candidate {number}",
        "source": None, "language_pair": None, "score": 0.0, **values,
    }  # fmt: skip


def drawn(pairs: int, slope: float, seed: int, each: int = 4) -> Pairs:
    """Pairs of one corpus, `each` of a reference, of which people prefer A with the probability of `slope`."""
    rng = numpy.random.default_rng(seed)
    differences = rng.normal(scale=0.5, size=pairs)
    better = (rng.random(pairs) < probabilities(slope, differences)).astype(float)
    numbers = numpy.arange(pairs)
    return Pairs(differences, better, numbers // each, numpy.zeros(pairs, int), (("sample", "train"),))


def test_the_slope_is_the_log_odds_where_all_differences_are_one() -> None:
    differences, better = numpy.array([1.0, -1.0, 1.0, -1.0, 1.0]), numpy.array([1.0, 0.0, 1.0, 1.0, 1.0])
    assert fit_slope(differences, better) == pytest.approx(math.log(4 / 1), abs=1e-4)
    assert fit_slope(differences, 1 - better) == pytest.approx(-math.log(4 / 1), abs=1e-4)


def test_a_tie_of_people_counts_half_for_each() -> None:
    with_ties = fit_slope(numpy.ones(4), numpy.array([1.0, 1.0, 0.5, 0.5]))
    assert with_ties == pytest.approx(math.log(3 / 1), abs=1e-4)


def test_the_slope_is_where_the_likelihood_has_no_gradient() -> None:
    rng = numpy.random.default_rng(3)
    differences = rng.normal(scale=0.2, size=500)
    better = (rng.random(500) < 1 / (1 + numpy.exp(-7 * differences))).astype(float)
    expected = brentq(lambda k: float((differences * (better - 1 / (1 + numpy.exp(-k * differences)))).sum()), 0, 30)
    assert fit_slope(differences, better) == pytest.approx(expected, rel=1e-4)


def test_without_differences_there_is_no_slope() -> None:
    assert fit_slope(numpy.zeros(0), numpy.zeros(0)) is None
    assert fit_slope(numpy.zeros(3), numpy.ones(3)) is None


def test_pairs_are_different_candidates_of_one_reference_and_corpus() -> None:
    rows = [
        row(0, score=0.1), row(1, score=0.9), row(2, reference="a dog"), row(3, corpus="other"), row(4, score=0.1),
        row(5, candidate="candidate 4", score=0.3),
    ]  # fmt: skip
    found = rated_pairs(rows, numpy.array([1.0, 3.0, 9.0, 9.0, 0.5, 0.5]))
    pairs = sorted(zip(found.differences.tolist(), found.better.tolist(), strict=True))
    # rows 0 and 1, 0 and 5, 0 and 4 (a tie), 1 and 5, 1 and 4; rows 4 and 5 hold one candidate
    assert pairs == [(-2.0, 0.0), (0.5, 0.0), (0.5, 0.5), (2.5, 1.0), (2.5, 1.0)]
    assert found.references == 1
    assert with_rivals(rows) == [rows[0], rows[1], rows[4], rows[5]]


def test_language_pairs_share_references_but_sources_of_one_do_not() -> None:
    """Two systems of different language pairs are judged against one text; a shared note is no shared reference."""
    rows = [
        row(0, language_pair="de-en", source="eins"), row(1, language_pair="cs-en", source="jedna"),
        row(2, language_pair="de-en", source="zwei"), row(3, language_pair="de-en"),
    ]  # fmt: skip
    found = rated_pairs(rows, numpy.array([0.0, 1.0, 10.0, 100.0]))
    assert sorted(-found.differences) == [1.0, 9.0, 90.0, 99.0, 100.0]  # not rows 0 and 2


def test_pairs_of_different_references_stay_within_a_language_pair() -> None:
    rows = [row(0, score=0.1), row(1, score=0.9, reference="a dog"), row(2, score=0.5, language_pair="de-en")]
    found = rated_pairs(rows, numpy.array([1.0, 3.0, 9.0]), SAME_LANGUAGE_PAIR)
    assert (found.differences.tolist(), found.better.tolist()) == ([-2.0], [0.0])


def test_a_row_meets_few_neighbours_where_there_are_thousands() -> None:
    rows = [row(i, score=float(i)) for i in range(NEIGHBOURS + 2)]
    found = rated_pairs(rows, numpy.arange(NEIGHBOURS + 2.0))
    assert len(found) == (NEIGHBOURS + 2) * (NEIGHBOURS + 1) / 2 - 1
    assert found.differences.min() == -NEIGHBOURS
    assert len(rated_pairs([], numpy.zeros(0))) == len(rated_pairs(rows[:1], numpy.zeros(1))) == 0


def test_the_error_is_the_mean_distance_of_the_bins_by_hand() -> None:
    """Bins are five points wide: 60 and 63% share one, whose people agree in 2 of 4; 97% is alone and right."""
    found = numpy.array([0.60, 0.40, 0.63, 0.37, 0.97])
    better = numpy.array([1.0, 1.0, 1.0, 1.0, 1.0])
    assert calibration_error(found, better) == pytest.approx(100 * (4 * abs(0.5 - 0.615) + 0.03) / 5)
    assert calibration_error(1 - found, 1 - better) == pytest.approx(calibration_error(found, better))
    assert calibration_error(numpy.array([0.5, 0.5]), numpy.array([1.0, 1.0])) == 0.0, "no candidate is favoured"


def test_probabilities_that_are_right_err_by_chance_alone() -> None:
    pairs = drawn(4000, slope=3.0, seed=5)
    right, steep = (probabilities(k, pairs.differences) for k in (3.0, 12.0))
    assert calibration_error(right, pairs.better) < 3.0
    assert calibration_error(right, pairs.better) == pytest.approx(error_by_chance(right), abs=1.0)
    assert calibration_error(steep, pairs.better) > 15.0
    assert error_by_chance(right[:100]) > 2 * error_by_chance(right)


def test_the_error_is_that_of_references_that_the_slope_has_not_seen() -> None:
    """One reference's people disagree with the metric: without it the slope is the steepest, and P is wrong there."""
    differences = numpy.ones(400)
    better = numpy.where(numpy.arange(400) < 100, 0.0, 1.0)
    groups = numpy.where(numpy.arange(400) < 100, 0, numpy.arange(400))
    pairs = Pairs(differences, better, groups, numpy.zeros(400, int), (("sample", "train"),))
    found = held_out_probabilities(pairs)
    assert found[0] > 0.99, "its own pairs did not lower it"
    assert found[100:].min() < 0.8


def test_the_slope_comes_with_its_error_and_one_for_each_corpus() -> None:
    pairs = drawn(2000, slope=3.0, seed=7)
    half = numpy.arange(2000) % 8 // 4
    found = preference(Pairs(pairs.differences, pairs.better, pairs.groups, half, (("a", "train"), ("b", "all"))))
    assert found is not None and found.slope == pytest.approx(3.0, rel=0.1)
    assert (found.pairs, found.pairs_of, found.references) == (2000, "reference", 500)
    assert found.error is not None and found.error < 4.0
    assert [(one.corpus, one.split, one.pairs) for one in found.checks] == [("a", "train", 1000), ("b", "all", 1000)]


def test_too_few_pairs_or_references_have_no_error() -> None:
    assert preference(drawn(LEAST_PAIRS - 1, 3.0, seed=1)) is None
    assert preference(drawn(LEAST_PAIRS, 3.0, seed=1, each=20)) is None  # ten references
    assert preference(drawn(LEAST_PAIRS, 3.0, seed=1)) is not None


def test_wmt15_and_16_hold_pairs_across_language_pairs(real_data: Path) -> None:
    """docs/scoring.md quotes their number."""
    rows = []
    for year in ("2015", "2016"):
        corpus = Corpus(
            name=f"wmt{year[2:]}", layout="wmt_daseg",
            parts=(Part(path=str(real_data / "wmt" / f"DAseg-wmt-newstest{year}")),), split=Split.TRAIN,
            language_pairs=("*-en",), years=(), test_fraction=None, scale=None,
        )  # fmt: skip
        ratings = cleaned(load(corpus), True, max_words=256).ratings
        rows += [{**dataclasses.asdict(one), "corpus": corpus.name, "split": "train"} for one in ratings]
    found = rated_pairs(rows, numpy.zeros(len(rows)))
    assert (len(rows), len(found)) == (4240, 992)
