"""The signals that a checkpoint still predicts: BLEU, ROUGE, entailment and the others of pre-training, for one pair.

Fine-tuning replaces the head of pre-training, and the checkpoint keeps it in `heads.safetensors`. `targets.json` says
which task each of its outputs belongs to. Fine-tuning has moved the encoder under that head since, so its predictions
are hints.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file
from scipy.special import softmax

from pipeline.core.errors import ModelError
from pipeline.metric.checkpoint import HEADS, TARGETS
from pipeline.metric.pairs import encode_pairs
from pipeline.metric.prediction import Replicas

if TYPE_CHECKING:
    from pipeline.scoring.scorer import BleurtScorer

DISTRIBUTION = "distribution"
"""Loss of a task whose columns are the probabilities of classes."""


@dataclass(frozen=True)
class Task:
    """One task of pre-training: the signal that it belongs to, the columns that it predicts, and its loss."""

    signal: str
    columns: tuple[str, ...]
    loss: str


@dataclass(frozen=True)
class Targets:
    """What a head predicts, in the order of its outputs: column i was (column - mean[i]) / deviation[i] in training."""

    tasks: tuple[Task, ...]
    mean: tuple[float, ...]
    deviation: tuple[float, ...]


@dataclass(frozen=True)
class Head:
    """The head of pre-training: `weight` (columns, features), `bias` (columns,), and what its outputs are."""

    weight: NDArray[numpy.float32]
    bias: NDArray[numpy.float32]
    targets: Targets


def load_head(folder: Path) -> Head | None:
    """The head that the checkpoint in `folder` keeps; None if it keeps none, a ModelError if it is damaged."""
    if not (folder / HEADS).exists() or not (folder / TARGETS).exists():
        return None
    try:
        weights = load_file(folder / HEADS)
        name = "classifier.out_proj" if "classifier.out_proj.weight" in weights else "classifier"  # as head_of
        weight, bias = (weights[f"{name}.{part}"].float().numpy() for part in ("weight", "bias"))
        head = Head(weight, bias, read_targets(folder / TARGETS))
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{folder / HEADS}: holds no pre-training head that {TARGETS} describes.") from error
    if not len(weight) == len(bias) == len(head.targets.mean):
        raise ModelError(f"{folder / HEADS}: holds no pre-training head that {TARGETS} describes.")
    return head


def read_targets(file: Path) -> Targets:
    """What the head beside `file` predicts; a ValueError, KeyError or TypeError if the file does not say."""
    read: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    tasks = tuple(Task(task["signal"], tuple(task["columns"]), task["loss"]) for task in read["tasks"])
    targets = Targets(tasks, tuple(map(float, read["mean"])), tuple(map(float, read["deviation"])))
    columns = sum(len(task.columns) for task in tasks)
    if not columns == len(targets.mean) == len(targets.deviation):
        raise ValueError("there are as many columns as means and deviations")
    return targets


def named_signals(outputs: Sequence[float], targets: Targets) -> dict[str, dict[str, float]]:
    """The head's outputs for one pair as signal -> column -> value, in the signals' own units.

    The scaling of regressions is undone. The columns of a distribution become probabilities, which sum to 1.

    >>> tasks = (Task("bleu", ("bleu",), "joint"), Task("flag", ("back", "mask"), DISTRIBUTION))
    >>> named_signals([1.5, 0.0, 0.0], Targets(tasks, (0.25, 0.0, 0.0), (0.5, 1.0, 1.0)))
    {'bleu': {'bleu': 1.0}, 'flag': {'back': 0.5, 'mask': 0.5}}
    """
    found: dict[str, dict[str, float]] = {}
    values = numpy.array(outputs) * targets.deviation + targets.mean
    first = 0
    for task in targets.tasks:
        mine = values[first : first + len(task.columns)]
        mine = softmax(mine) if task.loss == DISTRIBUTION else mine
        found.setdefault(task.signal, {}).update(zip(task.columns, mine.tolist(), strict=True))
        first += len(task.columns)
    return found


def predict_signals(scorer: "BleurtScorer", head: Head, reference: str, candidate: str) -> dict[str, dict[str, float]]:
    """What `head` predicts of one pair, signal -> column -> value; it reads what the last layer of the model reads."""
    encoded = encode_pairs(scorer.tokenizer, [reference], [candidate], scorer.max_tokens)
    (read,) = Replicas(scorer.model, precision="float32").head_inputs(encoded, scorer.batch_tokens)
    if head.weight.shape[1] != len(read):
        raise ModelError(f"{scorer.checkpoint}: the kept head reads {head.weight.shape[1]} features, not {len(read)}.")
    return named_signals((head.weight @ read + head.bias).tolist(), head.targets)
