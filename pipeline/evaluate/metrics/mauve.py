"""MAUVE of a system: how near all its candidates are to all references (`pipeline.statistics.mauve`).

From 0 to 1, higher is better. It asks whether the system writes as people do, not whether a candidate says what its
reference says. mauve_smoothed adds a half to the count of each cluster, for few texts. The authors take the last state
of GPT-2 large; here the vectors are those of any encoder of the project. They advise thousands of texts: with few, and
so few clusters, the value says little.
"""

from functools import partial

import numpy

from pipeline.core.params import AtLeastOne, ModelName, Positive, params
from pipeline.evaluate.metrics import Level, Metric, Reads, Section, Texts


@params
class Params:
    """Section `evaluate.mauve`.

    `model`: the encoder. `clusters`: null for a tenth of the texts. `scale`: c. `mixtures`: points of the curve.
    `seed`: of k-means.
    """

    model: ModelName
    clusters: AtLeastOne | None
    scale: Positive
    mixtures: AtLeastOne
    seed: int


def _score(smoothed: bool, texts: Texts, settings: Params, batch_tokens: int) -> numpy.ndarray:
    from pipeline.statistics.mauve import mauve
    from pipeline.teachers.sentence_vectors import sentence_vectors

    human = [text for references in texts.references for text in references]
    vectors = sentence_vectors(settings.model, [*human, *texts.candidates], batch_tokens)
    value = mauve(
        vectors[: len(human)],
        vectors[len(human) :],
        clusters=settings.clusters,
        scale=settings.scale,
        mixtures=settings.mixtures,
        smoothed=smoothed,
        seed=settings.seed,
    )
    return numpy.array(value)


def _signature(smoothed: bool, settings: Params) -> str:
    clusters = "a tenth of the texts" if settings.clusters is None else settings.clusters
    name = "MAUVE*, smoothed" if smoothed else "MAUVE"
    return (
        f"{name}, {settings.model}, clusters: {clusters}, c {settings.scale:g}, {settings.mixtures} mixtures, "
        f"seed {settings.seed}"
    )


def _models(settings: Params) -> tuple[str, ...]:
    from pipeline.teachers.sentence_vectors import files_of

    return files_of(settings.model)


SECTION = Section("mauve", Params, _models)
READS = Reads.REFERENCES | Reads.CANDIDATE
METRICS = tuple(
    Metric(
        f"mauve{'_smoothed' if smoothed else ''}",
        READS,
        partial(_score, smoothed),
        partial(_signature, smoothed),
        Level.SYSTEM,
        section=SECTION,
        title="MAUVE*" if smoothed else "MAUVE",
    )
    for smoothed in (False, True)
)
