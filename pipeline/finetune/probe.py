"""A start for the last layer: the ridge regression of the ratings on what the layer reads.

Kumar et al. 2022 (linear probing, then fine-tuning). The paper starts from a fresh layer; docs/log.md has the results.
"""

import numpy
import torch
from transformers import PreTrainedModel

from pipeline.metric.checkpoint import head_of
from pipeline.metric.pairs import EncodedPairs
from pipeline.metric.prediction import head_inputs


def probe(
    model: PreTrainedModel, pairs: EncodedPairs, ratings: numpy.ndarray, penalty: float, batch_tokens: int
) -> None:
    """Set the last layer of `model` to the ridge regression of `ratings` (pairs, aspects), NaN for an unrated aspect.

    All other weights stay, and so does the layer's row of an aspect without any rating. What the layer reads is
    standardised first. `penalty` is that of the squared weights; it counts like as many pairs.
    """
    layer = head_of(model.eval())
    features = head_inputs(model, pairs, batch_tokens).astype(numpy.float64)
    mean, deviation = features.mean(0), features.std(0) + 1e-6
    standard = (features - mean) / deviation
    for aspect in range(ratings.shape[1]):
        known = ~numpy.isnan(ratings[:, aspect])
        if not known.any():
            continue
        x, y = standard[known], ratings[known, aspect].astype(numpy.float64)
        centre = x.mean(0)
        gram = (x - centre).T @ (x - centre) + penalty * numpy.eye(x.shape[1])
        weights = numpy.linalg.solve(gram, (x - centre).T @ (y - y.mean())) / deviation
        with torch.no_grad():
            layer.weight[aspect] = torch.tensor(weights, dtype=layer.weight.dtype)
            layer.bias[aspect] = float(y.mean() - weights @ (mean + deviation * centre))
