"""How far the words of the candidate must travel to become those of the reference, after MoverScore (Zhao et al. 2019).

The earth mover's distance between the tokens of both sides, each weighing its IDF over the references, with the
Euclidean distance of their unit vectors in one layer of an encoder. BERTScore lets many words match one. Here every
word of the other side is used up, so that the alignment is soft. MoverScore also joins the last layers by power means,
and its encoder was trained for entailment. Ours takes the encoder and the layer of `evaluate.bertscore`.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy

from pipeline.evaluate.metrics import Metric, Texts
from pipeline.evaluate.metrics.bertscore import READS, SECTION, Encoder, signature

if TYPE_CHECKING:
    import torch

    from pipeline.teachers.matching import Matrix

FURTHEST = -1.0
"""The score of a pair with a side that has nothing to move: unit vectors are at most 2 apart."""


def score(texts: Texts, encoder: Encoder, batch_tokens: int) -> numpy.ndarray:
    """1 - the distance of each candidate from its reference, float64 (n,): from FURTHEST to 1 for equal texts."""
    from pipeline.teachers.matching import Matching, compared

    matching = Matching(encoder.model, encoder.layer, idf=True, batch_tokens=batch_tokens)
    values = compared(texts.reference, texts.candidates, matching, _moved, columns=1)
    return numpy.asarray(values[:, 0], dtype=numpy.float64)


def _moved(references: "Sequence[Matrix]", candidates: "Sequence[Matrix]") -> "torch.Tensor":
    import torch

    scores = [1.0 - distance(z, c) for z, c in zip(references, candidates, strict=True)]
    return torch.tensor(scores).reshape(-1, 1)


def distance(one: "Matrix", other: "Matrix") -> float:
    """Earth mover's distance of two texts, 0 to 2; 2 if a side has no token that carries weight."""
    from scipy.stats import wasserstein_distance_nd

    carry = [text.weights > 0 for text in (one, other)]
    if one.empty or other.empty or not all(bool(tokens.any()) for tokens in carry):
        return 1.0 - FURTHEST
    sides = [(text.vectors[tokens], text.weights[tokens]) for text, tokens in zip((one, other), carry, strict=True)]
    (vectors, weights), (others, other_weights) = [[t.double().cpu().numpy() for t in side] for side in sides]
    return float(wasserstein_distance_nd(vectors, others, weights, other_weights))


METRICS = (Metric("moverscore", READS, score, partial(signature, "1 - earth mover's distance", True), section=SECTION),)
