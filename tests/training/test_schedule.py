"""Batches cover every row once an epoch, waste little on padding, and depend only on (seed, step)."""

import numpy
import torch
from hypothesis import given
from hypothesis import strategies as st

from pipeline.core.batches import pad, token_batches
from pipeline.training.schedule import BatchPlan, epoch_batches


def test_an_epoch_holds_every_row_once() -> None:
    batches = epoch_batches([5, 1, 4, 2, 3, 9, 7], batch_rows=3, seed=1, epoch=0)
    assert sorted(row for batch in batches for row in batch) == [0, 1, 2, 3, 4, 5, 6]
    assert sorted(map(len, batches)) == [1, 3, 3]


def test_padding_stays_below_a_tenth_on_realistic_lengths() -> None:
    lengths = numpy.random.default_rng(0).gamma(6, 10, size=4000).astype(int) + 8
    plan = BatchPlan(lengths.tolist(), 32, seed=3)
    rows = [plan.rows(step) for step in range(plan.steps_an_epoch)]
    padded = sum(len(batch) * max(plan.lengths[i] for i in batch) for batch in rows)
    assert 1 - lengths.sum() / padded < 0.10


def test_a_step_is_the_same_whether_reached_in_order_or_at_once() -> None:
    lengths = list(range(1, 100))
    walked = BatchPlan(lengths, 8, seed=5)
    in_order = [walked.rows(step) for step in range(40)]
    assert BatchPlan(lengths, 8, seed=5).rows(33) == in_order[33]
    assert BatchPlan(lengths, 8, seed=6).rows(33) != in_order[33]


@given(st.lists(st.integers(1, 50), max_size=60), st.integers(1, 200))
def test_batches_hold_every_row_once_longest_first_within_the_budget(lengths: list[int], batch_tokens: int) -> None:
    batches = token_batches(lengths, batch_tokens)
    flat = [place for batch in batches for place in batch]
    assert sorted(flat) == list(range(len(lengths)))
    assert [lengths[place] for place in flat] == sorted(lengths, reverse=True)
    for batch in batches:
        assert len(batch) == 1 or len(batch) * lengths[batch[0]] <= batch_tokens


def test_token_batches_respect_the_budget_except_for_a_single_long_row() -> None:
    assert token_batches([3, 9, 4, 20], 10) == [[3], [1], [2, 0]]


def test_pad_fills_on_the_right() -> None:
    assert torch.equal(pad([[1, 2, 3], [4]], 0), torch.tensor([[1, 2, 3], [4, 0, 0]]))
