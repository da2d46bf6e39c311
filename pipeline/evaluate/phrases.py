"""How YiSi compares two token sequences: weighted n-grams, their best matches, precision, recall and F (Lo 2019).

A token t weighs log2(1 + (N + 1) / (c + 1)) where c of N lines hold it. Two n-grams are as similar as the weighted mean
of the similarities of their tokens, position by position. Recall is the weighted mean, over the n-grams of the one side
(the reference, or the source), of the similarity of the best match on the other; precision is the same from the
candidate's side. Every weight is that of the side from which one looks.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

Array = NDArray[numpy.float64]


@dataclass(frozen=True)
class Weights:
    """`counts`: in how many of the `lines` a token stands. A word without a count has that of its lower-case form."""

    counts: Counter[Hashable]
    lines: int

    def of(self, tokens: Sequence[Hashable]) -> Array:
        """Weight of each token, (tokens,); at least 1."""
        counts = numpy.array([self._count(token) for token in tokens], dtype=numpy.float64)
        weights: Array = numpy.log2(1.0 + (self.lines + 1.0) / (counts + 1.0))
        return weights

    def _count(self, token: Hashable) -> int:
        if token not in self.counts and isinstance(token, str):
            return self.counts[token.lower()]
        return self.counts[token]


def learn_weights(lines: Iterable[Sequence[Hashable]]) -> Weights:
    """Weights by the lines that hold a token.

    >>> learn_weights([["a", "b"], ["a"]]).of(["a", "b", "c"]).round(3).tolist()
    [1.0, 1.322, 2.0]
    """
    held = [set(line) for line in lines]
    return Weights(Counter(token for line in held for token in line), len(held))


def precision_recall(similarity: Array, left: Array, candidate: Array, longest: int) -> tuple[float, float]:
    """Precision and recall of a candidate; both are 0 if a side has no token.

    `similarity` (left tokens, candidate tokens), `left` and `candidate`: weights of the tokens, `longest`: tokens of an
    n-gram, unless a side has fewer.

    One token against an equal and an unlike one, all of weight 1: half of the candidate is found, all of the left.

    >>> precision_recall(numpy.array([[1.0, 0.0]]), numpy.ones(1), numpy.ones(2), 3)
    (0.5, 1.0)
    """
    size = min(longest, *similarity.shape)
    if size == 0:
        return 0.0, 0.0
    rows, columns = similarity.shape[0] - size + 1, similarity.shape[1] - size + 1
    by_left, by_candidate = numpy.zeros((rows, columns)), numpy.zeros((rows, columns))
    for place in range(size):
        cells = similarity[place : place + rows, place : place + columns]
        by_left += left[place : place + rows, None] * cells
        by_candidate += candidate[place : place + columns] * cells
    found = by_candidate.max(axis=0).sum(), by_left.max(axis=1).sum()
    weights = _of_ngrams(candidate, size), _of_ngrams(left, size)
    return float(found[0] / weights[0]), float(found[1] / weights[1])


def _of_ngrams(weights: Array, size: int) -> float:
    """Weight of all n-grams of `size` tokens together."""
    return float(numpy.convolve(weights, numpy.ones(size), mode="valid").sum())


def f_score(values: Array, alpha: float) -> Array:
    """P R / (alpha P + (1 - alpha) R) of precision and recall (n, 2), (n,); 0 if one of both is 0.

    With alpha 1 it is recall, with 0 precision.

    >>> f_score(numpy.array([[0.5, 1.0], [0.0, 1.0]]), 0.8).round(4).tolist()
    [0.8333, 0.0]
    """
    precision, recall = values.T
    below = alpha * precision + (1.0 - alpha) * recall
    both = (precision > 0) & (recall > 0)
    return numpy.where(both, precision * recall / numpy.where(both, below, 1.0), 0.0)
