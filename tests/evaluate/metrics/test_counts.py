"""Baselines by hand-checkable sentences; all are higher for better candidates."""

import math
import time

import numpy
import pytest

from pipeline.core.closure import ROOT
from pipeline.core.params import load_key
from pipeline.evaluate.metrics.counts import count_words, signature
from pipeline.evaluate.names import ENCODED, Baseline

COUNTING = [name for name in Baseline if name not in ENCODED]
REFERENCE = "the old bridge was closed in the spring of 1999"


@pytest.mark.parametrize("name", COUNTING)
def test_better_candidates_score_higher_and_equal_ones_highest(name: Baseline) -> None:
    candidates = [REFERENCE, "the old bridge was closed in spring 1999", "a cat sleeps on my warm sofa", ""]
    same, close, far, empty = count_words(name, [REFERENCE] * 4, candidates).tolist()
    assert same > close > far >= empty


@pytest.mark.parametrize(
    ("name", "best"),
    [
        (Baseline.SENTBLEU, 100.0),
        (Baseline.CHRF, 100.0),
        (Baseline.TER, 0.0),
        (Baseline.ROUGE_2, 1.0),
        (Baseline.ROUGE_L, 1.0),
    ],
)
def test_an_identical_candidate_has_the_best_score(name: Baseline, best: float) -> None:
    assert count_words(name, [REFERENCE], [REFERENCE])[0] == pytest.approx(best)


def test_ter_is_minus_the_edits_for_100_words() -> None:
    assert count_words(Baseline.TER, ["a b c d"], ["a b c e"])[0] == pytest.approx(-25.0)
    assert count_words(Baseline.TER, ["a b c d"], [""])[0] == pytest.approx(-100.0)


def test_meteor_by_hand() -> None:
    # Three of four words match, the last by its stem, in one chunk: P = R = 0.75, penalty 0.5 (1 / 3) ** 3.
    found = count_words(Baseline.METEOR, ["we saw dogs running"], ["we saw dog slowly"])[0]
    assert found == pytest.approx(0.75 * (1 - 0.5 / 27))
    assert (
        count_words(
            Baseline.METEOR,
            ["a b"],
            [
                "",
            ],
        )[0]
        == 0.0
    )
    assert "no synonyms" in signature(Baseline.METEOR)


def test_rouge_by_hand() -> None:
    # Bigrams ab bc cd against ab bc: P 1, R 2/3, F 0.8. Longest common subsequence abc: P 1, R 3/4, F 6/7.
    assert count_words(Baseline.ROUGE_2, ["a b c d"], ["a b c"])[0] == pytest.approx(0.8)
    assert count_words(Baseline.ROUGE_L, ["a b c d"], ["a b c"])[0] == pytest.approx(6 / 7)


def test_sentence_bleu_by_hand() -> None:
    # All n-grams of a four-word prefix match; only the brevity penalty exp(1 - 5/4) counts.
    found = count_words(Baseline.SENTBLEU, ["a b c d e"], ["a b c d"])[0]
    assert found == pytest.approx(100 * math.exp(1 - 5 / 4))


def test_sentence_bleu_of_a_short_match_uses_the_orders_that_exist() -> None:
    assert count_words(Baseline.SENTBLEU, ["yes indeed"], ["yes indeed"])[0] == pytest.approx(100.0)


def test_signatures_say_how() -> None:
    assert signature(Baseline.SENTBLEU).startswith("nrefs:1|case:mixed|eff:yes|tok:13a|smooth:exp|version:")
    assert "|nw:2|" in signature(Baseline.CHRF)
    assert signature(Baseline.TER).endswith(", negated")
    assert "rougeL" in signature(Baseline.ROUGE_L)


def test_the_longest_texts_that_collect_lets_through_take_seconds() -> None:
    longest = load_key(ROOT / "params.yaml", "collect")["max_words"]
    rng = numpy.random.default_rng(0)
    reference, candidate = (" ".join(f"w{n}" for n in rng.zipf(1.5, longest)) for _ in range(2))
    start = time.process_time()
    for name in COUNTING:
        assert count_words(name, [reference], [candidate]).shape == (1,)
    assert time.process_time() - start < 90  # TER alone takes 15 on a slow core, and 40 for 1,000 words


def test_no_rows_give_no_scores() -> None:
    for name in COUNTING:
        assert count_words(name, [], []).shape == (0,)
