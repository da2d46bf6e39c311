"""Batches of rows under a budget of tokens, and their padding, for everything that only runs a model (no training)."""

from collections.abc import Sequence

import torch
from torch.nn.utils.rnn import pad_sequence


def token_batches(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Numbers of rows by falling length, cut so that rows times the longest row stay within `batch_tokens`.

    A row longer than the budget is a batch by itself.

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


def pad(rows: Sequence[Sequence[int] | torch.Tensor], value: float) -> torch.Tensor:
    """Rows of ids (T,), or tensors (T, ...), of different lengths as one tensor (rows, longest T, ...).

    `value` fills up the end of every shorter row.

    >>> pad([[5, 6], [7]], 0).tolist()
    [[5, 6], [7, 0]]
    """
    tensors = [row if isinstance(row, torch.Tensor) else torch.tensor(row, dtype=torch.long) for row in rows]
    return pad_sequence(tensors, batch_first=True, padding_value=value)
