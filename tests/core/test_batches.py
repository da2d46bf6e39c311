"""Batches under a budget of tokens, and padding."""

import random

import torch

from pipeline.core.batches import pad, token_batches


def test_every_row_is_in_one_batch_within_the_budget_longest_first() -> None:
    draw = random.Random(1)
    lengths = [draw.randint(1, 30) for _ in range(200)]
    made = token_batches(lengths, 60)
    assert sorted(row for batch in made for row in batch) == list(range(200))
    assert all(len(batch) * max(lengths[row] for row in batch) <= 60 for batch in made)
    order = [lengths[row] for batch in made for row in batch]
    assert order == sorted(lengths, reverse=True)


def test_a_row_above_the_budget_is_a_batch_by_itself() -> None:
    assert token_batches([3, 99, 4], 10) == [[1], [2, 0]]
    assert token_batches([], 10) == []


def test_rows_of_ids_are_padded_at_the_end() -> None:
    padded = pad([[5, 6, 7], [8], []], 1)
    assert padded.tolist() == [[5, 6, 7], [8, 1, 1], [1, 1, 1]]
    assert padded.dtype == torch.long


def test_tensors_keep_their_kind_and_their_other_dimensions() -> None:
    padded = pad([torch.ones(1, 2), torch.ones(3, 2)], 0.0)
    assert padded.shape == (2, 3, 2)
    assert padded.dtype == torch.float32
    assert padded[0].tolist() == [[1, 1], [0, 0], [0, 0]]
