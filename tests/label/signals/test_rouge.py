"""ROUGE-N by hand."""

import pytest

from pipeline.core.errors import ParamsError
from pipeline.core.params import from_mapping
from pipeline.label.signals.rouge import Params, rouge


def test_bigrams_by_hand() -> None:
    # ab bc cd against ab bc bx: precision 2/3, recall 2/3; then against ab bc: 2/2, 2/3, F 0.8
    values = rouge(["a b c d", "a b c d"], ["a b c bx", "a b c"], Params(n=2))
    assert values[0] == pytest.approx([2 / 3, 2 / 3, 2 / 3], abs=1e-6)
    assert values[1] == pytest.approx([1, 2 / 3, 0.8], abs=1e-6)


def test_n_is_a_parameter() -> None:
    values = rouge(["a b c d"], ["d c b x"], Params(n=1))
    assert values[0] == pytest.approx([3 / 4, 3 / 4, 3 / 4], abs=1e-6)
    assert rouge(["a b c d"], ["d c b x"], Params(n=2)).tolist() == [[0, 0, 0]]


def test_repeated_bigrams_are_clipped_where_the_papers_code_took_sets() -> None:
    # candidate: aa aa aa, reference: aa ab; clipped 1 of 3 and 1 of 2 (sets would give 1 of 1 and 1 of 2)
    assert rouge(["a a b"], ["a a a a"], Params(n=2))[0] == pytest.approx([1 / 3, 1 / 2, 0.4], abs=1e-6)


def test_tokens_are_split_at_white_space_and_keep_case_and_punctuation() -> None:
    values = rouge(
        ["The cat.", "The  cat .", "Ein schöner Tag"], ["the cat", "The cat .", "Ein schöner Tag"], Params(n=1)
    )
    assert values.tolist() == [[0, 0, 0], [1, 1, 1], [1, 1, 1]]


def test_scripts_without_blanks_are_read_by_characters() -> None:
    (row,) = rouge(["今日は雨"], ["今日は雪"], Params(2))
    assert row.tolist() == pytest.approx([2 / 3, 2 / 3, 2 / 3])


def test_a_side_without_ngrams_is_zero() -> None:
    assert rouge(["a b", "a", "a b"], ["", "a", "a"], Params(n=2)).tolist() == [[0, 0, 0]] * 3
    assert rouge([], [], Params(n=2)).shape == (0, 3)


@pytest.mark.parametrize(("n", "rule"), [(0, "at least 1"), (-1, "at least 1"), (10, "at most 9")])
def test_an_impossible_order_is_refused_by_name(n: int, rule: str) -> None:
    with pytest.raises(ParamsError, match=rf"^label\.rouge\.n: must be {rule}, not {n}\.$"):
        from_mapping({"n": n}, Params, "label.rouge")
