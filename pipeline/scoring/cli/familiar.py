"""The familiar metrics beside ours: corpus BLEU, chrF and TER as sacrebleu gives them, and BERTScore.

BLEU, chrF (chrF2) and TER are sacrebleu's corpus scores and carry its signature; TER counts errors, so lower is better
there. BERTScore is the mean F1 of the signal BERTScore (`pipeline.label.signals.bertscore`), the best over a segment's
references. Empty references are left out where a segment has another one.

The p-values are of paired approximate randomisation against the first system, as for our own scores. sacrebleu has one
too, which counts only what is larger than the difference that was seen: systems that are equal, or differ in a handful
of segments, come out as surely different there. The p-values stand alone: nothing corrects for their number.
"""

import enum
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from pipeline.scoring.unusual_texts import clean
from pipeline.statistics.system_tests import Settings, randomise, randomise_corpus


class Familiar(enum.StrEnum):
    """Names on the command line."""

    BLEU = "bleu"
    CHRF = "chrf"
    TER = "ter"
    BERTSCORE = "bertscore"


@dataclass(frozen=True)
class Encoder:
    """BERTScore's: a model name (see `pipeline.core.models`) and the layer that is matched."""

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
    wanted = list(dict.fromkeys(wanted))
    used = [_used(texts) for texts in references]
    found = [_by_sacrebleu(name, used, systems, settings) for name in wanted if name is not Familiar.BERTSCORE]
    if Familiar.BERTSCORE in wanted:
        found.append(_by_bertscore(used, systems, encoder, settings))
    return found


def _used(references: Sequence[str]) -> list[str | None]:
    """A segment's references, None for those that are empty beside others.

    >>> _used(["a", " "]), _used(["", ""])
    (['a', None], ['', None])
    """
    first = next((place for place, text in enumerate(references) if clean(text)), 0)
    return [text if place == first or clean(text) else None for place, text in enumerate(references)]


def _by_sacrebleu(
    name: Familiar, references: Sequence[Sequence[str | None]], systems: Sequence[Sequence[str]], settings: Settings
) -> Result:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    kinds = {Familiar.BLEU: ("BLEU", BLEU), Familiar.CHRF: ("chrF2", CHRF), Familiar.TER: ("TER", TER)}
    shown, kind = kinds[name]
    metric: Any = kind()
    streams = list(zip(*references, strict=True))

    def score(counts: numpy.ndarray) -> float:
        return float(metric._compute_score_from_stats(counts.tolist()).score)  # what corpus_score calls, too

    counts = [numpy.array(metric._extract_corpus_statistics(texts, streams), numpy.float64) for texts in systems]
    rivals = [randomise_corpus(counts[0], rival, score, settings.permutations, settings.seed) for rival in counts[1:]]
    scores = tuple(score(rows.sum(0)) for rows in counts)
    return Result(shown, scores, (None, *rivals), str(metric.get_signature()))


def _by_bertscore(
    references: Sequence[Sequence[str | None]], systems: Sequence[Sequence[str]], encoder: Encoder, settings: Settings
) -> Result:
    from pipeline.label.signals.bertscore import Params, bertscore

    width = len(references[0])
    texts = [[next(filter(None, row), "") if text is None else text for text in row] for row in references]
    flat_references = list(itertools.chain.from_iterable(texts)) * len(systems)
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
