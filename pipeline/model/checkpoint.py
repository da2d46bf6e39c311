"""The metric as a model: transformers' own sequence classifier over (reference, candidate), saved as safetensors.

A checkpoint is a plain `save_pretrained` folder that AutoModelForSequenceClassification loads without this project.
Pre-trained checkpoints have one output for every target column; fine-tuned ones have one for each rated aspect, and
keep the pre-training head beside it in `heads.safetensors`, so that the signals can still be predicted.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from pipeline.core.errors import ModelError
from pipeline.model.locate import locate
from pipeline.model.quiet import quiet
from pipeline.model.targets import Scaling

HEADS = "heads.safetensors"
TARGETS = "targets.json"


def new_metric(encoder: str, outputs: Sequence[str], dropout: float, seed: int) -> PreTrainedModel:
    """The encoder named `encoder` (see `locate`) under a fresh linear layer with one row for each of `outputs`."""
    folder = locate(encoder)
    config = AutoConfig.from_pretrained(folder)
    config.id2label = dict(enumerate(outputs))
    config.label2id = {name: i for i, name in enumerate(outputs)}
    config.problem_type = "regression"
    for name in ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"):
        if hasattr(config, name):
            setattr(config, name, dropout)
    torch.manual_seed(seed)
    try:
        with quiet():
            model = AutoModelForSequenceClassification.from_pretrained(
                folder, config=config, dtype=torch.float32, use_safetensors=True, ignore_mismatched_sizes=True
            )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise ModelError(f"{folder}: cannot be loaded ({' '.join(str(error).split())[:160]}).") from error
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


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """The fast tokenizer of a model folder, never with remote code."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, use_fast=True)
    except (OSError, ValueError) as error:
        raise ModelError(
            f"{folder}: has no tokenizer that can be loaded ({' '.join(str(error).split())[:120]})."
        ) from error
    assert isinstance(tokenizer, PreTrainedTokenizerBase)
    return tokenizer


def save_metric(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write `model` and its tokenizer as a folder that the Auto classes load."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def save_targets(folder: Path, columns: Sequence[str], scaling: Scaling) -> None:
    """Write which columns the head predicts and how they were scaled."""
    text = json.dumps({"columns": list(columns), **asdict(scaling)}, indent=1)
    (folder / TARGETS).write_text(text + "\n", encoding="utf-8")


def keep_heads(pretrained: Path, finetuned: Path) -> None:
    """Carry the pre-training head of `pretrained` over into `finetuned`; nothing to do where there was none."""
    if not (pretrained / TARGETS).exists():
        return
    weights = load_file(pretrained / "model.safetensors")
    head = {name: tensor for name, tensor in weights.items() if name.startswith("classifier.")}
    save_file(head, finetuned / HEADS)
    (finetuned / TARGETS).write_bytes((pretrained / TARGETS).read_bytes())
