"""Splits never share a reference or a source."""

import itertools
import random

from hypothesis import given
from hypothesis import strategies as st

from pipeline.collect.corpus import Rating
from pipeline.collect.splits import components, hold_out, keys_of, normalised


def rating(reference: str, source: str | None = None, others: tuple[str, ...] = ()) -> Rating:
    return Rating("1", "adequacy", reference, others, "x", source, None, None, None, None, 50.0, None, 0.5)


def test_strings_are_compared_without_case_width_and_spaces() -> None:
    assert normalised(" The\u00a0 ＣＡＴ ") == "the cat"
    assert normalised("cafe\u0301") == normalised("CAFÉ")
    assert normalised("a cat") != normalised("a cat.")


def test_a_row_is_bound_by_every_reference_and_its_source() -> None:
    assert keys_of(rating("A", "B", ("C", ""))) == {"a", "b", "c"}
    assert keys_of(rating("A")) == {"a"}


def test_rows_hang_together_through_others() -> None:
    rows = [frozenset(keys) for keys in ("a", "bc", "x", "ab", "xy", "z")]
    assert components(rows) == [[0, 1, 3], [2, 4], [5]]


def test_whole_components_are_held_out_up_to_the_share() -> None:
    rows = [frozenset([f"k{number // 5}"]) for number in range(100)]
    held = hold_out(rows, 0.2, 1, "validation")
    assert len(held) == 20
    assert all(len({row in held for row in range(5 * k, 5 * k + 5)}) == 1 for k in range(20))
    assert hold_out(rows, 0.2, 2, "validation") != held
    assert hold_out(rows, 0.2, 1, "test/c") != held
    assert hold_out(rows, 0.04, 1, "validation") == set()


@given(
    st.lists(st.frozensets(st.sampled_from("abcdefghijklmnop"), min_size=1, max_size=3), max_size=40),
    st.floats(0, 1),
    st.randoms(use_true_random=False),
)
def test_nothing_is_shared_and_the_order_of_rows_does_not_matter(
    rows: list[frozenset[str]], fraction: float, shuffle: random.Random
) -> None:
    held = hold_out(rows, fraction, 7, "validation")
    assert len(held) <= round(fraction * len(rows))
    inside = set(itertools.chain.from_iterable(rows[row] for row in held))
    outside = set(itertools.chain.from_iterable(keys for row, keys in enumerate(rows) if row not in held))
    assert inside & outside == set()
    order = list(range(len(rows)))
    shuffle.shuffle(order)
    again = hold_out([rows[row] for row in order], fraction, 7, "validation")
    assert {order[row] for row in again} == held
