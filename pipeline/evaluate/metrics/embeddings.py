"""Metrics that match the vectors of tokens: BERTScore, and a word mover's distance like MoverScore.

BERTScore's F1 (Zhang et al. 2020) comes with and without weights by inverse document frequency, and is not rescaled. It
is at most 1; a pair with an empty side scores 0. The vectors are those of one layer of an encoder. If params.yaml
leaves the layer open, it is the layer that people agree with most on the validation ratings: Zhang et al. (appendix B)
choose it on ratings too. The test rows are not read for that. IDF is counted over the references of one corpus and
language pair, as the metric's authors count it over a test set.

MoverScore (Zhao et al. 2019) asks how far the words of the candidate must travel to become those of the reference: the
earth mover's distance between the tokens of both sides, each weighing its IDF over the references, with the Euclidean
distance of their unit vectors. BERTScore lets many words match one. Here every word of the other side is used up, so
that the alignment is soft. MoverScore also joins the last layers by power means, and its encoder was trained for
entailment. Ours takes the encoder and the layer of `evaluate.bertscore`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy
import pandas

from pipeline.core.errors import ParamsError
from pipeline.core.params import AtLeastOne, ModelName, params
from pipeline.evaluate.metrics import Metric, Reads, Row, Section, Texts
from pipeline.statistics.correlation import kendall

if TYPE_CHECKING:
    import torch

    from pipeline.teachers.matching import Matrix

FURTHEST = -1.0
"""MoverScore of a pair with a side that has nothing to move: unit vectors are at most 2 apart."""


@params
class Params:
    """Section `evaluate.bertscore`: the encoder and the layer that is matched; null for the best on validation."""

    model: ModelName
    layer: AtLeastOne | None


@dataclass(frozen=True)
class Encoder:
    """The settled params; `chosen` says whether the layer was chosen on the validation ratings."""

    model: str
    layer: int
    chosen: bool = False

    def __str__(self) -> str:
        """As in a signature: model, layer and how it was chosen."""
        return f"{self.model}, layer {self.layer}{' (best on validation)' if self.chosen else ''}"


def settle(given: Params, validation: Sequence[Row], batch_tokens: int) -> Encoder:
    """The encoder with its layer; a ParamsError if none can be chosen."""
    if given.layer is not None:
        return Encoder(given.model, given.layer)
    taus = layer_kendalls(given.model, validation, batch_tokens) if validation else []
    if not taus or numpy.isnan(taus).all():
        raise ParamsError("evaluate.bertscore.layer: is null, but there are no validation ratings to choose it on.")
    return Encoder(given.model, int(numpy.nanargmax(taus)) + 1, chosen=True)


def layer_kendalls(model: str, rows: Sequence[Row], batch_tokens: int) -> list[float]:
    """Mean Kendall over language pairs of BERTScore's F1 on `rows`, for layer 1, 2, … of the encoder `model`.

    NaN if, on every language pair, people's ratings or the scores are constant.
    """
    from pipeline.core.models import load_config, locate

    rated = pandas.DataFrame(rows, dtype=object)
    texts = Texts(tuple((z,) for z in rated["reference"]), (None,) * len(rated), tuple(rated["candidate"]))
    found = []
    for layer in range(1, load_config(locate(model)).num_hidden_layers + 1):
        rated["f1"] = _f1(False, texts, Encoder(model, layer), batch_tokens)
        pairs = rated.groupby("language_pair", dropna=False, sort=False)
        taus = pairs[["score", "f1"]].apply(lambda pair: kendall(*pair.to_numpy(float).T)).to_numpy(float)
        found.append(float(numpy.nanmean(taus)) if not numpy.isnan(taus).all() else numpy.nan)
    return found


def _f1(idf: bool, texts: Texts, encoder: Encoder, batch_tokens: int) -> numpy.ndarray:
    """F1 of each candidate against its reference, float64 (n,)."""
    from pipeline.teachers.matching import Matching, bertscore

    matching = Matching(encoder.model, encoder.layer, idf, batch_tokens)
    return bertscore(texts.reference, texts.candidates, matching)[:, 2].astype(numpy.float64)


def _signature(value: str, idf: bool, encoder: Encoder) -> str:
    """What is computed, by which encoder and layer, and how words are weighted."""
    weights = "IDF over the references of corpus and language pair" if idf else "no IDF"
    return f"{value}, {encoder}, {weights}, not rescaled"


def _moverscore(texts: Texts, encoder: Encoder, batch_tokens: int) -> numpy.ndarray:
    """1 - the distance of each candidate from its reference, float64 (n,): from FURTHEST to 1 for equal texts."""
    from pipeline.teachers.matching import Matching, compared

    matching = Matching(encoder.model, encoder.layer, idf=True, batch_tokens=batch_tokens)
    values = compared(texts.reference, texts.candidates, matching, _moved, columns=1)
    return numpy.asarray(values[:, 0], dtype=numpy.float64)


def _moved(references: "Sequence[Matrix]", candidates: "Sequence[Matrix]") -> "torch.Tensor":
    import torch

    scores = [1.0 - distance(z, c) for z, c in zip(references, candidates, strict=True)]
    return torch.tensor(scores).reshape(-1, 1)


def distance(one: "Matrix", other: "Matrix") -> float:
    """Earth mover's distance of two texts, 0 to 2; 2 if a side has no token that carries weight."""
    from scipy.stats import wasserstein_distance_nd

    carry = [text.weights > 0 for text in (one, other)]
    if one.empty or other.empty or not all(bool(tokens.any()) for tokens in carry):
        return 1.0 - FURTHEST
    sides = [(text.vectors[tokens], text.weights[tokens]) for text, tokens in zip((one, other), carry, strict=True)]
    (vectors, weights), (others, other_weights) = [[t.double().cpu().numpy() for t in side] for side in sides]
    return float(wasserstein_distance_nd(vectors, others, weights, other_weights))


SECTION = Section("bertscore", Params, models=lambda given: (given.model,), settle=settle)
READS = Reads.REFERENCE | Reads.CANDIDATE


def _metric(name: str, idf: bool, title: str = "") -> Metric:
    return Metric(name, READS, partial(_f1, idf), partial(_signature, "F1", idf), section=SECTION, title=title)


METRICS = (
    _metric("bertscore", idf=False, title="BERTScore"),
    _metric("bertscore_idf", idf=True),
    Metric("moverscore", READS, _moverscore, partial(_signature, "1 - earth mover's distance", True), section=SECTION),
)
