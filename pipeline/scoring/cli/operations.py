"""How many operations a pair costs in the encoder, and how many this machine's matrix product does in a second."""

import time
from dataclasses import dataclass
from typing import Any

import torch

PRODUCT_TOKENS = 4096
"""Rows of the matrices that are multiplied: tokens of a batch."""

PRODUCT_SECONDS = 0.5


@dataclass(frozen=True)
class Sizes:
    """An encoder: its layers, the width of its hidden states and of its feed-forward layers."""

    layers: int
    hidden: int
    inner: int


def sizes_of(config: Any) -> Sizes:
    """Of a sequence classifier of transformers, or of the encoder inside an AlignmentMetric."""
    inside = config.encoder_config() if hasattr(config, "encoder_config") else config
    return Sizes(inside.num_hidden_layers, inside.hidden_size, inside.intermediate_size)


def pair_operations(tokens: int, sizes: Sizes) -> int:
    """Multiplications and additions of the encoder's matrix products on a pair of `tokens` tokens.

    A layer multiplies each token with four matrices (hidden, hidden) and two (hidden, inner), and attention each token
    with each twice. What the head adds, less than a hundredth, is left out.

    >>> pair_operations(10, Sizes(layers=1, hidden=2, inner=8))
    1760
    """
    matrices = 2 * tokens * (4 * sizes.hidden**2 + 2 * sizes.hidden * sizes.inner)
    return sizes.layers * (matrices + 4 * tokens**2 * sizes.hidden)


def product_rate(sizes: Sizes, seconds: float = PRODUCT_SECONDS) -> float:
    """Operations a second of torch.matmul in single precision, on the encoder's shapes as often as a layer has them."""
    times, work = 0.0, 0
    for count, width, height in (
        (4, sizes.hidden, sizes.hidden),
        (1, sizes.hidden, sizes.inner),
        (1, sizes.inner, sizes.hidden),
    ):
        left, right = torch.rand(PRODUCT_TOKENS, width), torch.rand(width, height)
        out = torch.empty(PRODUCT_TOKENS, height)
        torch.matmul(left, right, out=out)
        repeats, started = 0, time.perf_counter()
        while time.perf_counter() - started < seconds / 3:
            torch.matmul(left, right, out=out)
            repeats += 1
        times += count * (time.perf_counter() - started) / repeats
        work += count * 2 * PRODUCT_TOKENS * width * height
    return work / times
