"""The metric as a model: transformers' own sequence classifier over (reference, candidate), saved as safetensors.

A checkpoint is a plain `save_pretrained` folder that AutoModelForSequenceClassification loads without this project.
Pre-trained checkpoints have one output for every target column; fine-tuned ones have one for each rated aspect, and
keep the pre-training head beside it in `heads.safetensors`, so that the signals can still be predicted.
"""

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification, PreTrainedModel, PreTrainedTokenizerBase

from pipeline.core.shards import writing
from pipeline.model.loading import load, load_config
from pipeline.model.locate import locate
from pipeline.model.targets import Scaling

HEADS = "heads.safetensors"
TARGETS = "targets.json"


def new_metric(encoder: str, outputs: Sequence[str], dropout: float, seed: int) -> PreTrainedModel:
    """The encoder named `encoder` (see `locate`) under a fresh linear layer with one row for each of `outputs`.

    Pooler and classifier may be new, drawn from `seed`; any other weight that the folder lacks is a ModelError.
    """
    folder = locate(encoder)
    config = load_config(folder)
    config.id2label = dict(enumerate(outputs))
    config.label2id = {name: i for i, name in enumerate(outputs)}
    config.problem_type = "regression"
    for name in ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"):
        if hasattr(config, name):
            setattr(config, name, dropout)
    torch.manual_seed(seed)
    model = load(AutoModelForSequenceClassification, folder, ("pooler", "classifier"), config=config)
    assert isinstance(model, PreTrainedModel)
    _fresh_head(model, seed)
    return model


def _fresh_head(model: PreTrainedModel, seed: int) -> None:
    """A new last layer from `seed` alone: same start whatever the folder held or the library drew before."""
    torch.manual_seed(seed)
    layer = head_of(model)
    torch.nn.init.normal_(layer.weight, std=model.config.initializer_range)
    torch.nn.init.zeros_(layer.bias)


def head_of(model: PreTrainedModel) -> torch.nn.Linear:
    """The last linear layer: `classifier`, or its output projection in RoBERTa-like heads."""
    head = model.classifier
    layer = head if isinstance(head, torch.nn.Linear) else head.out_proj
    assert isinstance(layer, torch.nn.Linear)
    return layer


def save_metric(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write `model` and its tokenizer as a folder that the Auto classes load; a full disk is a StorageError."""
    with _weights(folder / "model.safetensors"):
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


@contextlib.contextmanager
def _weights(file: Path) -> Iterator[None]:
    """Inside, `file` is written by safetensors: an error of the disk is a StorageError and leaves no part of it."""
    with writing(file):
        try:
            yield
        except (OSError, SafetensorError) as error:
            file.unlink(missing_ok=True)
            raise error if isinstance(error, OSError) else OSError(str(error)) from error


def save_targets(folder: Path, columns: Sequence[str], scaling: Scaling) -> None:
    """Write which columns the head predicts and how they were scaled."""
    text = json.dumps({"columns": list(columns), **asdict(scaling)}, indent=1)
    with writing(folder / TARGETS):
        (folder / TARGETS).write_text(text + "\n", encoding="utf-8")


def keep_heads(pretrained: Path, finetuned: Path) -> None:
    """Carry the pre-training head of `pretrained` over into `finetuned`; nothing to do where there was none."""
    if not (pretrained / TARGETS).exists():
        return
    weights = load_file(pretrained / "model.safetensors")
    head = {name: tensor for name, tensor in weights.items() if name.startswith("classifier.")}
    with _weights(finetuned / HEADS):
        save_file(head, finetuned / HEADS)
    (finetuned / TARGETS).write_bytes((pretrained / TARGETS).read_bytes())
