"""What learns from the ratings: the pre-trained checkpoint as it is, or its encoder under the head of another system.

    dvc exp run -S finetune.head=regressor -S finetune.encoder=frozen

`head`: `kept` is BLEURT's, chosen by `pretrain.head`. `regressor` is RUSE or the BERT regressor of 004, `esim` is ESIM
(`pipeline.metric.regressor`, `pipeline.metric.esim`). `estimator` is Predictor-Estimator (`pipeline.metric.estimator`);
its encoder is a predictor, which `python -m pipeline.bundled predictor` makes. The encoder is that of the pre-trained
checkpoint: with the variant `none` it is the encoder as it was published. `encoder`: `frozen` keeps its weights as they
are, and its dropout out; 004 compares that with `tuned` (tables 4.2 to 4.4).
"""

import copy
import enum
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import Field, model_validator
from transformers import AutoModel, PreTrainedModel

from pipeline.core.errors import ModelError
from pipeline.core.models import load, load_tokenizer, locate, usable_tokens
from pipeline.core.params import AtLeastOne, ShareBelowOne, params
from pipeline.metric.apart import ApartMetric, apart_settings, texts_apart
from pipeline.metric.checkpoint import with_outputs
from pipeline.metric.esim import EsimConfig, EsimMetric
from pipeline.metric.estimator import EstimatorMetric
from pipeline.metric.regressor import Inputs, RegressorConfig, RegressorMetric, Vectors

Some = Annotated[tuple[AtLeastOne, ...], Field(min_length=1)]


class System(enum.StrEnum):
    """The head over the encoder."""

    KEPT = "kept"
    REGRESSOR = "regressor"
    ESIM = "esim"
    ESTIMATOR = "estimator"


class Encoder(enum.StrEnum):
    """Whether the encoder learns."""

    TUNED = "tuned"
    FROZEN = "frozen"


@dataclass(frozen=True)
class Shape:
    """One perceptron of the grid: hidden `layers` of `width`, `dropout`, and `batch_pairs` of its training."""

    layers: int
    width: int
    dropout: float
    batch_pairs: int


@params
class RegressorParams:
    """`encoders`: others beside the pre-trained one, by name. `inputs`, `vectors`: see `pipeline.metric.regressor`.

    Every combination of `layers`, `widths`, `dropouts` and `batches` (pairs) is trained if the encoder is frozen, and
    the best on validation is kept. If the encoder learns, there must be only one, and `finetune.batch_pairs` counts.
    """

    encoders: tuple[str, ...]
    inputs: Inputs
    vectors: Vectors
    layers: Some
    widths: Some
    dropouts: Annotated[tuple[ShareBelowOne, ...], Field(min_length=1)]
    batches: Some

    @model_validator(mode="after")
    def _one_encoder_for_pairs(self) -> "RegressorParams":
        if self.inputs is Inputs.PAIR and self.encoders:
            raise ValueError(f"encoders: must be empty, one encoder reads pairs, not {list(self.encoders)}")
        if self.inputs is Inputs.PAIR and self.vectors is Vectors.MEAN:
            raise ValueError("vectors: must be cls or cls4 with inputs pair, not mean")
        return self

    @property
    def shapes(self) -> list[Shape]:
        """The grid."""
        return [Shape(*one) for one in itertools.product(self.layers, self.widths, self.dropouts, self.batches)]


@params
class EsimParams:
    """`width`: of a state of the LSTMs in one direction; 004 does not use ESIM, Mathur et al. take 300."""

    width: AtLeastOne


@params
class EstimatorParams:
    """`width`: of a state of the LSTM in one direction."""

    width: AtLeastOne


def new_system(
    params: Any, start: Path, aspects: Sequence[str], shape: Shape | None = None
) -> tuple[PreTrainedModel, Any]:
    """The model that will learn, and its tokenizer, from the checkpoint in `start`; `params` is FinetuneParams.

    `shape`: of the regressor's perceptron; without it the perceptron has no hidden layer.
    """
    model, tokenizer = with_outputs(start, aspects, params.dropout, params.schedule.seed), load_tokenizer(start)
    model.config.reads = params.reads.value
    if params.head is System.KEPT:
        return model, tokenizer
    if (params.head is System.ESTIMATOR) != isinstance(model, EstimatorMetric):
        raise ModelError(
            f"{start}: is of the type {model.config.model_type}; finetune.head must be kept or estimator for a "
            f"predictor, and for no other model estimator, not {params.head}."
        )
    if isinstance(model, EstimatorMetric):
        return _estimator(model, params), tokenizer
    encoder = model.base_model
    encoder.pooler = None
    encoder.config.architectures = None
    one = params.regressor
    if params.head is System.REGRESSOR and one.inputs is Inputs.PAIR:
        longest = usable_tokens(encoder.config, tokenizer)
        parts = texts_apart([tokenizer], [encoder.config], [longest])
        config = _regressor(apart_settings([encoder], parts, aspects, params.dropout), params, shape)
        return _assembled(RegressorMetric, config, [encoder], params.schedule.seed), tokenizer
    names = one.encoders if params.head is System.REGRESSOR else ()
    folders = [locate(name) for name in names]
    encoders = [encoder, *(load(AutoModel, folder, ("pooler",)) for folder in folders)]
    given = [tokenizer, *map(load_tokenizer, folders)]
    configs = [each.config for each in encoders]
    longest_texts = [usable_tokens(config, read) for config, read in zip(configs, given, strict=True)]
    parts = texts_apart(given, configs, longest_texts)
    settings = apart_settings(encoders, parts, aspects, params.dropout)
    if params.head is System.ESIM:
        config = EsimConfig(width=params.esim.width, reads=params.reads.value, **settings)
        return _assembled(EsimMetric, config, encoders, params.schedule.seed), parts
    return _assembled(RegressorMetric, _regressor(settings, params, shape), encoders, params.schedule.seed), parts


def _estimator(model: EstimatorMetric, params: Any) -> PreTrainedModel:
    """The predictor of `model` under a fresh estimator."""
    config = copy.deepcopy(model.config)
    config.estimator_width, config.hidden_dropout_prob = params.estimator.width, params.dropout
    torch.manual_seed(params.schedule.seed)
    found = EstimatorMetric(config).eval()
    found.predictor.load_state_dict(model.predictor.state_dict())
    return found


def _regressor(settings: dict[str, Any], params: Any, shape: Shape | None) -> RegressorConfig:
    one = params.regressor
    dropout = {"head_dropout": shape.dropout if shape else 0.0}
    return RegressorConfig(
        inputs=one.inputs.value,
        vectors=one.vectors.value,
        layers=shape.layers if shape else 0,
        width=shape.width if shape else 0,
        reads=params.reads.value,
        **{**settings, **dropout},
    )


def _assembled(kind: type[ApartMetric], config: Any, encoders: Sequence[Any], seed: int) -> PreTrainedModel:
    """A model of `kind` with the weights of `encoders`, and a head that depends on `seed` alone."""
    model = kind(config).eval()
    for mine, given in zip(model.encoders, encoders, strict=True):
        weights = given.state_dict()
        mine.load_state_dict({name: weights[name] for name in mine.state_dict()})
    torch.manual_seed(seed)
    for name, part in model.named_modules():
        if not name.startswith("encoders") and hasattr(part, "reset_parameters"):
            part.reset_parameters()
    return model


def freeze(model: PreTrainedModel) -> None:
    """Keep the weights of the encoders of `model` as they are, and take their dropout out; poolers learn."""
    prefix = model.base_model_prefix
    for name, weight in model.named_parameters():
        weight.requires_grad_(not name.startswith(f"{prefix}.") or "pooler" in name.split("."))
    for name, part in model.named_modules():
        if name.startswith(f"{prefix}.") and isinstance(part, torch.nn.Dropout):
            part.p = 0.0
