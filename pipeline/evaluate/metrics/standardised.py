"""all-comb (Sellam et al. 2020, section 6): the mean of standardised BLEURT, YiSi-1 and YiSi-2.

Every score is standardised (mean 0, variance 1) over the rows that are scored together: those of a corpus and language
pair. BLEURT and YiSi-1 score each reference by itself, so k references make 2 k + 1 scores, as the authors' average of
seven for three references; a segment with fewer references has fewer. A checkpoint that reads sources gets them; one
that reads no reference scores a segment once. Higher is better. Beside the authors' plain average, scores are
standardised, because those of BLEURT spread more widely than those of YiSi.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from pipeline.core.params import AtLeastOne, ModelName, params
from pipeline.evaluate.metrics import Metric, Reads, Row, Section, Texts, known_metrics
from pipeline.evaluate.metrics.yisi import OneLanguage, TwoLanguages


@params
class Params:
    """Section `evaluate.all_comb`: a checkpoint, its longest pair in tokens, and the settings of YiSi-1 and YiSi-2."""

    bleurt: ModelName
    max_tokens: AtLeastOne
    yisi1: OneLanguage
    yisi2: TwoLanguages


@dataclass(frozen=True)
class Settled:
    """The settled settings of the three metrics. `reads`: what BLEURT reads beside the candidate."""

    bleurt: str
    max_tokens: int
    yisi1: Any
    yisi2: Any
    reads: str = "reference"


def _settle(given: Params, validation: Sequence[Row], batch_tokens: int) -> Settled:
    values = {"yisi1": given.yisi1, "yisi2": given.yisi2}
    settled = {name: _section(name).settle(value, validation, batch_tokens) for name, value in values.items()}
    from pipeline.core.models import locate
    from pipeline.metric.checkpoint import reads_in

    return Settled(given.bleurt, given.max_tokens, reads=reads_in(locate(given.bleurt)).value, **settled)


def _section(name: str) -> Section:
    section = known_metrics()[name].section
    assert section is not None
    return section


def _models(settings: Settled) -> tuple[str, ...]:
    parts = (_section(name).models(getattr(settings, name)) for name in ("yisi1", "yisi2"))
    return (settings.bleurt, *(model for part in parts for model in part))


def standardised(scores: numpy.ndarray) -> numpy.ndarray:
    """Scores (n,) with mean 0 and variance 1, without regard to NaN; all 0 if they are equal.

    >>> standardised(numpy.array([1.0, 3.0, numpy.nan])).tolist()
    [-1.0, 1.0, nan]
    """
    spread = numpy.nanstd(scores)
    found: numpy.ndarray = (scores - numpy.nanmean(scores)) / (spread if spread > 0 else 1.0)
    return found


def combined(columns: Sequence[numpy.ndarray]) -> numpy.ndarray:
    """The mean of the standardised `columns`, each (n,), over those that have a number, (n,)."""
    found: numpy.ndarray = numpy.nanmean([standardised(column) for column in columns], axis=0)
    return found


def _score(texts: Texts, settings: Settled, batch_tokens: int) -> numpy.ndarray:
    known = known_metrics()
    columns = [known["yisi2"].score(texts, settings.yisi2, batch_tokens)]
    for number in range(max(len(references) for references in texts.references)):
        rows = [row for row, references in enumerate(texts.references) if len(references) > number]
        alone = Texts(
            tuple((texts.references[row][number],) for row in rows),
            tuple(texts.sources[row] for row in rows),
            tuple(texts.candidates[row] for row in rows),
        )
        again = number > 0 and settings.reads == "source"
        found = [] if again else [_bleurt(alone, settings, batch_tokens)]
        for scores in (*found, known["yisi1"].score(alone, settings.yisi1, batch_tokens)):
            column = numpy.full(len(texts.candidates), numpy.nan)
            column[rows] = scores
            columns.append(column)
    return combined(columns)


def _bleurt(texts: Texts, settings: Settled, batch_tokens: int) -> numpy.ndarray:
    """The first output of the checkpoint."""
    from pipeline.core.models import locate
    from pipeline.metric.beside import beside_in
    from pipeline.metric.prediction import predict

    folder = locate(settings.bleurt)
    first = beside_in(folder).texts(texts.reference, texts.sources)
    found = predict(folder, first, texts.candidates, settings.max_tokens, batch_tokens)
    return numpy.asarray(found if found.ndim == 1 else found[:, 0], dtype=numpy.float64)


def _signature(settings: Settled) -> str:
    yisi = "; ".join(known_metrics()[name].signature(getattr(settings, name)) for name in ("yisi1", "yisi2"))
    reads = "" if settings.reads == "reference" else f" reads {settings.reads},"
    cut = f"pairs cut to {settings.max_tokens} tokens"
    return f"mean of standardised scores: BLEURT {settings.bleurt},{reads} {cut}; {yisi}"


SECTION = Section("all_comb", Params, _models, _settle)
READS = Reads.REFERENCES | Reads.SOURCE | Reads.CANDIDATE
METRICS = (Metric("all_comb", READS, _score, _signature, section=SECTION, title="all-comb"),)
