"""LASIM (Yankovskaya et al. 2019; in 004): how near the vectors of source and candidate are, without a reference.

The cosine of the two sentence vectors of one multilingual encoder, from -1 to 1; higher is better. The authors take
LASER's vectors. Here any encoder will do, by name: the default is Google's universal sentence encoder, multilingual v3,
which comes through pip; LASER has no package that carries its weights.
"""

from typing import Any

import numpy

from pipeline.core.params import ModelName, params
from pipeline.evaluate.metrics import Metric, Reads, Section, Texts


@params
class Params:
    """Section `evaluate.lasim`: the multilingual encoder."""

    model: ModelName


def _score(texts: Texts, settings: Params, batch_tokens: int) -> numpy.ndarray:
    from pipeline.teachers.sentence_vectors import sentence_vectors

    sources = [source for source in texts.sources if source is not None]
    vectors = sentence_vectors(settings.model, [*sources, *texts.candidates], batch_tokens)
    found: numpy.ndarray = (vectors[: len(sources)] * vectors[len(sources) :]).sum(axis=1)
    return found


def _models(settings: Params) -> tuple[str, ...]:
    from pipeline.teachers.sentence_vectors import files_of

    return files_of(settings.model)


def _signature(settings: Any) -> str:
    return f"cosine of the sentence vectors of source and candidate, {settings.model}"


SECTION = Section("lasim", Params, _models)
METRICS = (Metric("lasim", Reads.SOURCE | Reads.CANDIDATE, _score, _signature, section=SECTION, title="LASIM"),)
