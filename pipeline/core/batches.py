"""Batches of rows under a budget of tokens, and their padding: for scoring and labelling."""

from collections.abc import Sequence

import torch


def token_batches(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Rows by falling length, cut so that rows times the longest row stay within `batch_tokens` (scoring, labelling).

    A row longer than the budget makes a batch of its own.

    >>> token_batches([3, 9, 4], batch_tokens=10)
    [[1], [2, 0]]
    """
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    batches: list[list[int]] = []
    for row in order:
        if batches and lengths[batches[-1][0]] * (len(batches[-1]) + 1) <= batch_tokens:
            batches[-1].append(row)
        else:
            batches.append([row])
    return batches


def pad(rows: Sequence[Sequence[int]], value: int) -> torch.Tensor:
    """Rows of ids as one tensor (rows, longest), padded with `value` on the right."""
    width = max(map(len, rows))
    return torch.tensor([[*row, *([value] * (width - len(row)))] for row in rows])
