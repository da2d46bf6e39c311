"""The signals that a checkpoint still predicts: BLEU, ROUGE, entailment and the others of pre-training, for one pair.

Fine-tuning replaces the head of pre-training, and the checkpoint keeps it in `heads.safetensors`. `targets.json` says
which task each of its outputs belongs to. Fine-tuning has moved the encoder under that head since, so its predictions
are hints.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file

from pipeline.core.errors import ModelError
from pipeline.metric.checkpoint import HEADS, TARGETS, read_targets
from pipeline.metric.pairs import encode_pairs
from pipeline.metric.prediction import Replicas
from pipeline.metric.tasks import Targets, named_signals

if TYPE_CHECKING:
    from pipeline.scoring.scorer import BleurtScorer


@dataclass(frozen=True)
class Head:
    """The head of pre-training: `weight` (columns, features), `bias` (columns,), and what its columns are."""

    weight: NDArray[numpy.float32]
    bias: NDArray[numpy.float32]
    targets: Targets


def load_head(folder: Path) -> Head | None:
    """The head that the checkpoint in `folder` keeps; None if it keeps none, a ModelError if it is damaged."""
    if not (folder / HEADS).exists() or not (folder / TARGETS).exists():
        return None
    targets = read_targets(folder)
    try:
        weights = load_file(folder / HEADS)
        name = "classifier.out_proj" if "classifier.out_proj.weight" in weights else "classifier"  # as head_of
        weight, bias = (weights[f"{name}.{part}"].float().numpy() for part in ("weight", "bias"))
    except (OSError, SafetensorError, KeyError) as error:
        raise ModelError(f"{folder / HEADS}: holds no pre-training head that {TARGETS} describes.") from error
    if not len(weight) == len(bias) == len(targets.columns):
        raise ModelError(f"{folder / HEADS}: holds no pre-training head that {TARGETS} describes.")
    return Head(weight, bias, targets)


def predict_signals(scorer: "BleurtScorer", head: Head, reference: str, candidate: str) -> dict[str, dict[str, float]]:
    """What `head` predicts of one pair, signal -> column -> value; it reads what the last layer of the model reads."""
    encoded = encode_pairs(scorer.tokenizer, [reference], [candidate], scorer.max_tokens)
    (read,) = Replicas(scorer.model, precision="float32").head_inputs(encoded, scorer.batch_tokens)
    if head.weight.shape[1] != len(read):
        raise ModelError(f"{scorer.checkpoint}: the kept head reads {head.weight.shape[1]} features, not {len(read)}.")
    return named_signals((head.weight @ read + head.bias).tolist(), head.targets)
