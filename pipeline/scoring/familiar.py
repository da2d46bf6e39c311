"""The familiar metrics beside ours: corpus BLEU, chrF and TER as sacrebleu gives them, and BERTScore.

BLEU, chrF (chrF2) and TER carry sacrebleu's own signature and its own paired approximate randomisation against the
first system, on corpus scores; TER counts errors, so lower is better there. BERTScore is the mean F1 of the signal
BERTScore (`pipeline.signals.bertscore`), the best over a segment's references, with this project's randomisation. These
p-values stand alone: nothing corrects for their number.
"""

import enum
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from pipeline.scoring.paired import Settings, randomise

TRIAL_NUMBERS = 20_000_000
"""Trials times segments that sacrebleu's randomisation holds in memory (8 bytes each): fewer trials on large inputs."""


class Familiar(enum.StrEnum):
    """Names on the command line."""

    BLEU = "bleu"
    CHRF = "chrf"
    TER = "ter"
    BERTSCORE = "bertscore"


@dataclass(frozen=True)
class Encoder:
    """BERTScore's: a model name (see `pipeline.model.locate`) and the layer that is matched."""

    model: str
    layer: int


@dataclass(frozen=True)
class Result:
    """One metric: a score for each system, a p-value against the first for each (None for itself), a signature."""

    metric: str
    scores: tuple[float, ...]
    p_values: tuple[float | None, ...]
    signature: str


def familiar_scores(
    wanted: Sequence[Familiar],
    references: Sequence[Sequence[str]],
    systems: Sequence[Sequence[str]],
    encoder: Encoder,
    settings: Settings,
) -> list[Result]:
    """The `wanted` metrics of `systems` (systems, segments); `references[i]` are those of segment i, equally many."""
    counted = [name for name in wanted if name is not Familiar.BERTSCORE]
    found = _by_sacrebleu(counted, references, systems, settings.permutations) if counted else []
    if Familiar.BERTSCORE in wanted:
        found.append(_by_bertscore(references, systems, encoder, settings))
    return found


def _by_sacrebleu(
    wanted: Sequence[Familiar],
    references: Sequence[Sequence[str]],
    systems: Sequence[Sequence[str]],
    permutations: int,
) -> list[Result]:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER
    from sacrebleu.significance import PairedTest

    makers = {Familiar.BLEU: BLEU, Familiar.CHRF: CHRF, Familiar.TER: TER}
    trials = max(1, min(permutations, TRIAL_NUMBERS // len(references)))
    streams = [list(stream) for stream in zip(*references, strict=True)]
    named: list[tuple[str, Sequence[str]]] = [(str(number), texts) for number, texts in enumerate(systems)]
    test = PairedTest(named, {name.value: makers[name]() for name in wanted}, streams, "ar", n_samples=trials)
    signatures, results = test()
    return [_result(name, results[name], str(signature)) for name, signature in signatures.items()]


def _result(metric: str, found: Sequence[Any], signature: str) -> Result:
    p_values = tuple(None if one.p_value is None else float(one.p_value) for one in found)
    return Result(metric, tuple(float(one.score) for one in found), p_values, signature)


def _by_bertscore(
    references: Sequence[Sequence[str]], systems: Sequence[Sequence[str]], encoder: Encoder, settings: Settings
) -> Result:
    from pipeline.signals.bertscore import Params, bertscore

    width = len(references[0])
    flat_references = list(itertools.chain.from_iterable(references)) * len(systems)
    flat_candidates = [text for candidates in systems for text in candidates for _ in range(width)]
    params = Params(encoder.model, encoder.layer, idf=False, baseline=None, batch_tokens=4096)
    f1 = bertscore(flat_references, flat_candidates, params)[:, 2].astype(numpy.float64)
    scores = f1.reshape(len(systems), len(references), width).max(axis=2)
    rivals = [randomise(row, settings.permutations, settings.seed) for row in scores[1:] - scores[0]]
    return Result(
        "BERTScore",
        tuple(scores.mean(axis=1).tolist()),
        (None, *rivals),
        f"F1, {encoder.model}, layer {encoder.layer}, no IDF, not rescaled",
    )
