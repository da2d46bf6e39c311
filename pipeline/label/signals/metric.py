"""Scores of trained metrics (beyond the paper): what a small encoder learns from large ones (Pu et al. 2021).

An ensemble of fine-tuned metrics rates every pair; the signal is the mean of their scores, on the scale of people's
standardised ratings. It is not among params.yaml's `signals`, because the first metric has no teacher; docs/pipeline.md
says how to ask for it.
"""

from pathlib import Path
from typing import Annotated, Literal

import numpy
import pyarrow
from pydantic import Field

from pipeline.core.errors import ModelError
from pipeline.core.models import load_tokenizer, locate
from pipeline.core.params import AtLeastOne, ModelName, params
from pipeline.metric.checkpoint import load_metric, reads_in
from pipeline.metric.pairs import encode_pairs
from pipeline.metric.prediction import Replicas

COLUMNS = ("metric_score",)
"""A standardised rating; higher is better."""


@params
class Params:
    """`models`: fine-tuned checkpoints, whose first output is a rating. `precision`: bf16 is faster on many CPUs.

    A pair is cut to `max_tokens` tokens; a batch holds at most `batch_tokens`.
    """

    models: Annotated[tuple[ModelName, ...], Field(min_length=1)]
    max_tokens: AtLeastOne
    batch_tokens: AtLeastOne
    precision: Literal["float32", "bf16"]


def models(params: Params) -> tuple[Path, ...]:
    """The checkpoints' folders; a ModelError for one that reads sources, which synthetic pairs do not have."""
    folders = tuple(locate(name) for name in params.models)
    for name, folder in zip(params.models, folders, strict=True):
        if reads_in(folder).source:
            raise ModelError(
                f"label.metric.models: {name} reads the source of a candidate, and synthetic pairs have none."
            )
    return folders


def score(pairs: pyarrow.Table, params: Params) -> numpy.ndarray:
    """Mean score of each pair over the models, (rows, 1) float32."""
    references, candidates = (pairs.column(side).to_pylist() for side in ("reference", "candidate"))
    total = numpy.zeros(len(references), numpy.float64)
    for folder in models(params):
        encoded = encode_pairs(load_tokenizer(folder), references, candidates, params.max_tokens)
        replicas = Replicas(load_metric(folder), precision=params.precision, owned=True)
        total += replicas.outputs(encoded, params.batch_tokens)[:, 0]
    return (total / len(params.models)).astype(numpy.float32)[:, None]
