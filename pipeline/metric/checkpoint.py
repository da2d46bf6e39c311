"""The metric as a model: a sequence classifier over (reference, candidate), saved as safetensors.

A checkpoint is a `save_pretrained` folder for AutoModelForSequenceClassification: either one of transformers' own
classes, as in the paper, or `pipeline.metric.alignment.AlignmentMetric`, whose code lies beside the weights, or one
of the other systems' (`pipeline.metric.regressor`, `pipeline.metric.esim`, `pipeline.metric.estimator`).
A pre-trained checkpoint has one output for each column of its signals, which `targets.json` describes. A fine-tuned one
has one output for each rated aspect; it keeps the pre-training head in `heads.safetensors`, so that the signals can
still be predicted.
"""

import contextlib
import dataclasses
import enum
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoModelForSequenceClassification, PreTrainedModel, PreTrainedTokenizerBase

from pipeline.core import originals, runtime
from pipeline.core.errors import ModelError
from pipeline.core.models import from_folder, load, load_config, load_tokenizer, locate, settings_of, usable_tokens
from pipeline.core.shards import writing
from pipeline.metric import esim, estimator, regressor
from pipeline.metric.alignment import SPREAD, AlignmentConfig, AlignmentMetric
from pipeline.metric.beside import Reads, reads_of
from pipeline.metric.predictor import PredictorConfig
from pipeline.metric.tasks import Loss, Scaling, Targets, Task

KNOWN = (AlignmentMetric, regressor.RegressorMetric, esim.EsimMetric, estimator.EstimatorMetric)
"""Architectures of our own; importing this module makes them known to transformers' Auto classes."""

FRESH = ("pooler", "classifier", estimator.FRESH)
"""Parts that an encoder, or a predictor, may lack; they are drawn."""

HEADS = "heads.safetensors"
TARGETS = "targets.json"


class Head(enum.StrEnum):
    """What the outputs are computed from."""

    CLS = "cls"  # [CLS] through the pooler, transformers' own classifier (paper, section 3)
    ALIGNMENT = "alignment"  # the same, and how the words of the two sentences match


def new_metric(encoder: str, head: Head, outputs: Sequence[str], dropout: float, seed: int) -> PreTrainedModel:
    """The encoder named `encoder` (see `locate`) under a fresh `head` with one row for each of `outputs`.

    The pooler and the last layer may be new; `seed` draws them. Any other weight that the folder lacks is a ModelError.
    A checkpoint that has the alignment head already keeps it, whatever `head` says. A predictor, which has no [CLS],
    gets the estimator.
    """
    folder = locate(encoder)
    config = originals.forget(load_config(folder))
    torch.manual_seed(seed)
    if head is Head.ALIGNMENT and not isinstance(config, AlignmentConfig | PredictorConfig):
        return _with_alignment(folder, config, outputs, dropout, seed)
    return with_outputs(folder, outputs, dropout, seed)


def with_outputs(folder: Path, outputs: Sequence[str], dropout: float, seed: int) -> PreTrainedModel:
    """The checkpoint or encoder in `folder` under a fresh last layer with one row for each of `outputs`.

    `seed` draws the layer; all other weights stay, and every rate of dropout becomes `dropout`.
    """
    config = _named(originals.forget(load_config(folder)), outputs)
    _set_dropout(config, dropout)
    torch.manual_seed(seed)
    model = load(AutoModelForSequenceClassification, folder, FRESH, config=config)
    assert isinstance(model, PreTrainedModel)
    _fresh_head(model, seed)
    head_of(model).__class__ = ExactLinear
    return model


def _with_alignment(folder: Path, encoder: Any, outputs: Sequence[str], dropout: float, seed: int) -> PreTrainedModel:
    _set_dropout(encoder, dropout)
    tokenizer = load_tokenizer(folder)
    if tokenizer.sep_token_id is None:
        raise ModelError(f"{folder}: the tokenizer has no separator token, which ends the reference.")
    specials = [i for i in tokenizer.all_special_ids if i != tokenizer.unk_token_id]
    longest = usable_tokens(encoder, tokenizer)
    config = AlignmentConfig(settings_of(encoder), tokenizer.sep_token_id, specials, dropout, longest)
    with from_folder(folder):
        model = AlignmentMetric(_named(config, outputs)).eval()
    encoder.architectures = None
    weights = load(AutoModel, folder, ("pooler",), config=encoder).state_dict()
    model.encoder.load_state_dict({name: weights[name] for name in model.encoder.state_dict()})
    torch.manual_seed(seed)
    torch.nn.init.normal_(model.pooler.weight, std=encoder.initializer_range)
    torch.nn.init.zeros_(model.pooler.bias)
    _fresh_head(model, seed)
    return model


def _named(config: Any, outputs: Sequence[str]) -> Any:
    config.id2label = dict(enumerate(outputs))
    config.label2id = {name: i for i, name in enumerate(outputs)}
    config.problem_type = "regression"
    return config


def _set_dropout(config: Any, dropout: float) -> None:
    """Every dropout rate of `config`, and of the encoder inside it, becomes `dropout`."""
    for name in (
        "hidden_dropout_prob",
        "attention_probs_dropout_prob",
        "classifier_dropout",
        "classifier_dropout_prob",
    ):
        if hasattr(config, name):
            setattr(config, name, dropout)
        if isinstance(config, AlignmentConfig) and name in config.encoder:
            config.encoder[name] = dropout


def _fresh_head(model: PreTrainedModel, seed: int) -> None:
    """A new last layer that depends only on `seed`, not on what the folder held or the library has drawn before.

    With the alignment head every output starts as four times the F measure of the matching; [CLS] has weight 0 at
    first.
    """
    torch.manual_seed(seed)
    layer = head_of(model)
    torch.nn.init.normal_(layer.weight, std=getattr(model.config, "initializer_range", 0.02))
    torch.nn.init.zeros_(layer.bias)
    if isinstance(model, AlignmentMetric):
        with torch.no_grad():
            layer.weight.zero_()
            layer.weight[:, -1] = 4.0 / SPREAD


def head_of(model: PreTrainedModel) -> torch.nn.Linear:
    """The last linear layer: `classifier`, or its output projection in RoBERTa-like heads."""
    head = model.classifier
    layer = head if isinstance(head, torch.nn.Linear) else head.out_proj
    assert isinstance(layer, torch.nn.Linear)
    return layer


class ExactLinear(torch.nn.Linear):
    """A linear layer that computes in its weights' precision. Under bf16's autocast, scores would be 0.004 apart."""

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        """Outputs (rows, outputs) of features (rows, features)."""
        with torch.autocast(given.device.type, enabled=False):
            return super().forward(given.to(self.weight.dtype))


def load_metric(folder: Path, device: str | None = None) -> PreTrainedModel:
    """The checkpoint in `folder`, in evaluation mode and single precision, on `device` or the runtime's device.

    A checkpoint that lacks a weight is a ModelError.
    """
    model = load(AutoModelForSequenceClassification, locate(str(folder)))
    assert isinstance(model, PreTrainedModel)
    head_of(model).__class__ = ExactLinear
    return model.to(device or runtime.device())


def reads_in(folder: Path) -> Reads:
    """What the checkpoint in `folder` reads beside the candidate."""
    return reads_of(load_config(folder))


def save_metric(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write `model` and its tokenizer as a folder that the Auto classes load; a full disk is a StorageError."""
    with _weights(folder / "model.safetensors"):
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


@contextlib.contextmanager
def _weights(file: Path) -> Iterator[None]:
    """Inside, safetensors writes `file`; if the disk fails, that is a StorageError, and no part of the file stays."""
    with writing(file):
        try:
            yield
        except (OSError, SafetensorError) as error:
            file.unlink(missing_ok=True)
            raise error if isinstance(error, OSError) else OSError(str(error)) from error


def save_targets(folder: Path, targets: Targets) -> None:
    """Write which columns the pre-training head in `folder` predicts, how they were scaled, and their tasks."""
    written = {
        "columns": targets.columns,
        **dataclasses.asdict(targets.scaling),
        "tasks": [dataclasses.asdict(task) for task in targets.tasks],
    }
    with writing(folder / TARGETS):
        (folder / TARGETS).write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


def read_targets(folder: Path) -> Targets:
    """What the pre-training head in `folder` predicts; a ModelError if its targets.json does not say so."""
    file = folder / TARGETS
    try:
        read = json.loads(file.read_text(encoding="utf-8"))
        if "tasks" not in read:
            raise ModelError(f"{file}: names no tasks, because an older version wrote it; train again.")
        tasks = tuple(
            Task(task["name"], task["signal"], tuple(task["columns"]), Loss(task["loss"])) for task in read["tasks"]
        )
        targets = Targets(tasks, Scaling(tuple(map(float, read["mean"])), tuple(map(float, read["deviation"]))))
        if not list(targets.columns) == read["columns"] or not all(
            len(numbers) == len(targets.columns) for numbers in (targets.scaling.mean, targets.scaling.deviation)
        ):
            raise ValueError("columns differ")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{file}: does not describe a pre-training head.") from error
    return targets


def start_from(model: PreTrainedModel, start: Path, column: str) -> None:
    """Set every row of the last layer of `model` to the row of `column` in the checkpoint `start`, in its own units.

    A pre-trained checkpoint has the columns of its signals, a fine-tuned one its aspects. A ModelError if there is no
    such column.
    """
    layer, first = head_of(model), load_metric(start, "cpu")
    scaling: Scaling | None = None
    columns: Sequence[str] = list(first.config.id2label.values())
    is_pretrained = (start / TARGETS).exists() and not (start / HEADS).exists()  # fine-tuning keeps its start's head
    if is_pretrained:
        targets = read_targets(start)
        scaling, columns = targets.scaling, targets.columns
    if column not in columns:
        raise ModelError(f"{start}: predicts no {column}, only {', '.join(columns)}.")
    place, head = columns.index(column), head_of(first)
    scale, mean = (scaling.deviation[place], scaling.mean[place]) if scaling else (1.0, 0.0)
    with torch.no_grad():
        layer.weight.copy_((scale * head.weight[place]).expand_as(layer.weight))
        layer.bias.fill_(float(scale * head.bias[place] + mean))


def keep_heads(pretrained: Path, finetuned: Path) -> None:
    """Copy the pre-training head of `pretrained` and its targets to `finetuned`; nothing if there was no head."""
    if not (pretrained / TARGETS).exists():
        return
    weights = load_file(pretrained / "model.safetensors")
    head = {name: tensor for name, tensor in weights.items() if name.startswith("classifier.")}
    with _weights(finetuned / HEADS):
        save_file(head, finetuned / HEADS)
    with writing(finetuned / TARGETS):
        (finetuned / TARGETS).write_bytes((pretrained / TARGETS).read_bytes())
