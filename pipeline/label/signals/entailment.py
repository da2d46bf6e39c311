"""Textual entailment (section 4.2): a classifier's probabilities; premise is the reference, hypothesis the candidate.

The paper used BERT fine-tuned on MNLI; any sequence classifier over the three usual labels serves. The labels' order is
read from the model's `id2label` by name, since published models differ in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy
import pyarrow
import torch

from pipeline.core.errors import ModelError, ParamsError
from pipeline.core.models import locate
from pipeline.core.runtime import device
from pipeline.teachers.encoder import Transformer, load_classifier

LABELS = ("entailment", "contradiction", "neutral")
"""Names in `id2label`, in any case, in the order of the signal's columns."""


@dataclass(frozen=True)
class Params:
    """`model`: the classifier; `batch_tokens`: padded tokens in a batch, for speed alone."""

    model: str
    batch_tokens: int

    def __post_init__(self) -> None:
        if self.batch_tokens < 1:
            raise ParamsError(f"label.entailment.batch_tokens: must be at least 1, not {self.batch_tokens}.")


def models(params: Params) -> tuple[Path, ...]:
    """The classifier's folder."""
    return (locate(params.model),)


def score(pairs: pyarrow.Table, params: Params) -> numpy.ndarray:
    """Probabilities for each pair, (rows, 3) float32."""
    return entailment(pairs.column("reference").to_pylist(), pairs.column("candidate").to_pylist(), params)


def entailment(references: Sequence[str], candidates: Sequence[str], params: Params) -> numpy.ndarray:
    """Probabilities that the reference entails, contradicts, is neutral to the candidate, (n, 3) float32, sum 1.

    Each unique pair is classified once. Raises ModelError where the classifier lacks one of the three labels.
    """
    folder = locate(params.model)
    classifier = load_classifier(folder, device())
    columns = label_columns(classifier.model.config.id2label, folder)
    pairs = list(zip(references, candidates, strict=True))
    unique = {pair: place for place, pair in enumerate(dict.fromkeys(pairs))}
    probabilities = _classify(classifier, list(unique), params.batch_tokens)
    return numpy.asarray(probabilities[[unique[pair] for pair in pairs]][:, columns], dtype=numpy.float32)


def label_columns(id2label: dict[int, str], folder: Path) -> list[int]:
    """Where the model's output has each of LABELS.

    >>> label_columns({0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"}, Path("model"))
    [2, 0, 1]
    """
    places = {str(name).lower(): place for place, name in id2label.items()}
    if sorted(places) != sorted(LABELS):
        raise ModelError(
            f"{folder}: id2label must name {', '.join(LABELS)}, not {', '.join(map(str, id2label.values()))}."
        )
    return [places[label] for label in LABELS]


@torch.inference_mode()
def _classify(classifier: Transformer, pairs: Sequence[tuple[str, str]], batch_tokens: int) -> torch.Tensor:
    """Softmax over the model's own labels, (n, 3), on the CPU."""
    probabilities = torch.zeros(len(pairs), len(LABELS))
    if pairs:
        encoded = classifier.tokenize([z for z, _ in pairs], [c for _, c in pairs])
        for rows, inputs in classifier.batches(encoded, range(len(pairs)), batch_tokens):
            probabilities[rows] = classifier.model(**inputs).logits.softmax(dim=-1).cpu()
    return probabilities
