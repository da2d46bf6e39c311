"""Moses' sentence BLEU by hand and against sacrebleu."""

import math
import random

import numpy
import pytest
import sacrebleu

from pipeline.label.signals.bleu import Params, bleu, token_bleu

ENGLISH = Params("en")


def test_one_wrong_word_of_four_by_hand() -> None:
    # matches 3, 2, 1, 0 of totals 4, 3, 2, 1; ratios (m+1)/(t+1): 4/5, 3/4, 2/3, 1/2; same length
    expected = (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25
    assert token_bleu(["a", "b", "c", "d"], ["a", "b", "c", "x"]) == pytest.approx(expected, abs=1e-12)


def test_nothing_in_common_is_not_zero_because_unigrams_are_smoothed_too() -> None:
    # matches 0 of totals 2, 1, 0, 0: ratios 1/3, 1/2, 1, 1
    assert token_bleu(["a", "b"], ["x", "y"]) == pytest.approx((1 / 6) ** 0.25, abs=1e-12)


def test_matches_are_clipped() -> None:
    # "the" x 4 against one "the": unigrams 1 of 4, then 0 of 3, 2, 1
    expected = (2 / 5 * 1 / 4 * 1 / 3 * 1 / 2) ** 0.25
    assert token_bleu(["the", "cat", "sat", "down"], ["the"] * 4) == pytest.approx(expected, abs=1e-12)


def test_a_short_candidate_pays_brevity_and_a_long_one_does_not() -> None:
    assert token_bleu(["a", "b", "c"], ["a", "b"]) == pytest.approx(math.exp(-0.5), abs=1e-12)
    # a longer candidate: 2, 1, 0, 0 of 3, 2, 1, 0
    assert token_bleu(["a", "b"], ["a", "b", "c"]) == pytest.approx((3 / 4 * 2 / 3 * 1 / 2) ** 0.25, abs=1e-12)


def test_text_is_tokenized_as_moses_does_and_keeps_its_case() -> None:
    values = bleu(['Stop , "now" .', "It's 3.5% of 1,000."], ['Stop, "now".', "it's 3.5% of 1,000."], ENGLISH)
    assert values[0, 0] == 1
    # It 's 3.5 % of 1,000 . are seven tokens, the first differs: 6, 5, 4, 3 of 7, 6, 5, 4
    assert values[1, 0] == pytest.approx((7 / 8 * 6 / 7 * 5 / 6 * 4 / 5) ** 0.25, abs=1e-6)


def test_the_language_decides_the_tokens() -> None:
    # l' eau in French, l 'eau in English, against eau: 1 or 0 of 2 unigrams, 0 of 1 bigrams
    assert bleu(["eau"], ["l'eau"], Params("fr"))[0, 0] == pytest.approx((2 / 3 * 1 / 2) ** 0.25, abs=1e-6)
    assert bleu(["eau"], ["l'eau"], ENGLISH)[0, 0] == pytest.approx((1 / 3 * 1 / 2) ** 0.25, abs=1e-6)


@pytest.mark.parametrize("language", ["ja", "zh"])
def test_characters_are_the_tokens_where_words_are_not_separated(language: str) -> None:
    # one of five differs, the last: 4, 3, 2, 1 of 5, 4, 3, 2
    values = bleu(["北京很大。"], ["北京很大！"], Params(language))
    assert values[0, 0] == pytest.approx((5 / 6 * 4 / 5 * 3 / 4 * 2 / 3) ** 0.25, abs=1e-6)


def test_empty_and_equal_candidates() -> None:
    values = bleu(["a b", "a b", "a", "a b"], ["", "  ", "a", "a b"], ENGLISH)
    assert values.dtype == numpy.float32
    assert values.tolist() == [[0], [0], [1], [1]]
    assert bleu([], [], ENGLISH).shape == (0, 1)


def test_orders_two_to_four_agree_with_sacrebleu_and_unigrams_are_the_known_difference() -> None:
    draw = random.Random(5)
    for _ in range(50):
        reference = [draw.choice("abcde") for _ in range(draw.randint(4, 12))]
        candidate = [draw.choice([*reference, "x"]) for _ in range(draw.randint(4, 12))]
        theirs = sacrebleu.sentence_bleu(
            " ".join(candidate),
            [" ".join(reference)],
            smooth_method="add-k",
            smooth_value=1,
            tokenize="none",
            use_effective_order=False,
        )
        (matches, *_), (total, *_) = theirs.counts, theirs.totals
        if matches:
            unsmoothed, smoothed = matches / total, (matches + 1) / (total + 1)
            expected = theirs.score / 100 * (smoothed / unsmoothed) ** 0.25
            assert token_bleu(reference, candidate) == pytest.approx(expected, rel=1e-9)


def test_lists_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        bleu(["a", "b"], ["a"], ENGLISH)
