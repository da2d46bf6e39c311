"""Textual entailment (section 4.2): a classifier's probabilities; the reference is the premise, the candidate follows.

The paper takes BERT fine-tuned on MNLI; here any sequence classifier with the three usual labels will do. Published
models order their labels differently, so the order is read by name from the model's `id2label`.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy
import pyarrow
import torch

from pipeline.core.errors import ModelError
from pipeline.core.models import locate
from pipeline.core.params import AtLeastOne, ModelName, params
from pipeline.core.runtime import device
from pipeline.teachers.encoder import Transformer, load_classifier

COLUMNS = ("entailment_entail", "entailment_contradict", "entailment_neutral")
"""A probability each; their sum is 1."""

LABELS = ("entailment", "contradiction", "neutral")
"""Names in `id2label`, in any case, in the order of the signal's columns."""


@params
class Params:
    """`model`: the classifier; `batch_tokens`: padded tokens in a batch, for speed only."""

    model: ModelName
    batch_tokens: AtLeastOne


def models(params: Params) -> tuple[Path, ...]:
    """The classifier's folder."""
    return (locate(params.model),)


def score(pairs: pyarrow.Table, params: Params) -> numpy.ndarray:
    """Probabilities for each pair, (rows, 3) float32."""
    return entailment(pairs.column("reference").to_pylist(), pairs.column("candidate").to_pylist(), params)


def entailment(references: Sequence[str], candidates: Sequence[str], params: Params) -> numpy.ndarray:
    """Probabilities that the reference entails, contradicts or is neutral to the candidate, (n, 3) float32, sum 1.

    Each distinct pair is classified once. Raises ModelError if the classifier's labels are not these three.
    """
    folder = locate(params.model)
    classifier = load_classifier(folder, device())
    columns = label_columns(classifier.model.config.id2label, folder)
    pairs = list(zip(references, candidates, strict=True))
    unique = {pair: place for place, pair in enumerate(dict.fromkeys(pairs))}
    probabilities = _classify(classifier, list(unique), params.batch_tokens)
    return numpy.asarray(probabilities[[unique[pair] for pair in pairs]][:, columns], dtype=numpy.float32)


def label_columns(id2label: dict[int, str], folder: Path) -> list[int]:
    """Place of each of LABELS in the model's output.

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
