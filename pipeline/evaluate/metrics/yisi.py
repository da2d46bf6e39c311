"""YiSi-0, YiSi-1 and YiSi-2 (Lo 2019), and YiSi-comb for several references (Sellam et al. 2020, section 6).

All four compare n-grams as `pipeline.evaluate.phrases` says; they differ in how similar two tokens are. YiSi-0: twice
the length of their longest common substring by the sum of both lengths. YiSi-1: the cosine of word vectors (equal words
without regard to case: 1, an unknown word: 0), or of the hidden states of one layer of an encoder; a negative cosine
is 0. YiSi-2 reads the source in place of the reference, with vectors of both languages in one space, or one
multilingual encoder; words that look alike count 1 only if a side has no vector. F weighs recall by alpha. Weights are
learnt on the texts of the side that are scored together: references (YiSi-0 and 1, also for candidates), sources and
candidates (YiSi-2). Higher is better, from 0 to 1. A document's score is the mean over its sentences.

Equal to the authors' program (chikiulo/yisi) within 1e-6 on its own test with words between blanks. Deviations: an
equal line counts once in the weights; letters are characters, not bytes; raw texts get sacrebleu's 13a words. An
encoder's tokens are its pieces, and equal pieces are not set to 1, as there with embeddings of BERT. The layer
and alpha can be chosen by Kendall on validation ratings, as the layer of BERTScore is.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy
import pandas

from pipeline.core.errors import ModelError
from pipeline.core.params import AtLeastOne, ModelName, Share, params
from pipeline.evaluate.metrics import Metric, Reads, Row, Section, Texts, UnreadableError
from pipeline.evaluate.metrics.ngrams import has_words
from pipeline.evaluate.phrases import f_score
from pipeline.evaluate.similarities import Kind, Spelling, States, Tokens, Vectors, compared
from pipeline.statistics.correlation import kendall

ALPHA = 0.8
"""The authors' weight of recall; what a null becomes where there are no validation ratings to choose it on."""

ALPHAS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Among these a null alpha is chosen; 002, figure 1, has its best at 0.7 and 0.8."""


@params
class Spelled:
    """Section `evaluate.yisi0`: weight of recall, tokens of an n-gram, where words end."""

    alpha: Share
    longest: AtLeastOne
    tokens: Tokens


@params
class OneLanguage:
    """Section `evaluate.yisi1`, of YiSi-1 and YiSi-comb.

    `vectors`: a file of word vectors, or null for the states of `layer` of the encoder `model`. A null `layer` or
    `alpha` is chosen on validation. `comb_alpha`: of YiSi-comb.
    """

    model: ModelName
    layer: AtLeastOne | None
    vectors: str | None
    alpha: Share | None
    comb_alpha: Share
    longest: AtLeastOne
    tokens: Tokens


@params
class TwoLanguages:
    """Section `evaluate.yisi2`: as `OneLanguage`, with a file of word vectors for each side, or null for both."""

    model: ModelName
    layer: AtLeastOne | None
    source_vectors: str | None
    candidate_vectors: str | None
    alpha: Share | None
    longest: AtLeastOne
    tokens: Tokens


@dataclass(frozen=True)
class Settled:
    """How tokens are compared, and what was chosen on validation (part of the signature)."""

    kind: Kind
    longest: int
    alpha: float
    comb_alpha: float = ALPHA
    chosen: tuple[str, ...] = ()


def _spelled(given: Spelled, validation: Sequence[Row], batch_tokens: int) -> Settled:
    return Settled(Spelling(given.tokens), given.longest, given.alpha)


def _one_language(given: OneLanguage, validation: Sequence[Row], batch_tokens: int) -> Settled:
    files = None if given.vectors is None else (given.vectors, given.vectors)
    found = _settle(given, files, False, validation, batch_tokens)
    return Settled(found.kind, found.longest, found.alpha, given.comb_alpha, found.chosen)


def _two_languages(given: TwoLanguages, validation: Sequence[Row], batch_tokens: int) -> Settled:
    named = (given.source_vectors, given.candidate_vectors)
    files = None if None in named else (str(named[0]), str(named[1]))
    return _settle(given, files, True, validation, batch_tokens)


def _settle(
    given: OneLanguage | TwoLanguages,
    files: tuple[str, str] | None,
    across: bool,
    validation: Sequence[Row],
    batch_tokens: int,
) -> Settled:
    """What the params leave open is the best on validation; without validation, the model's usual layer and ALPHA."""
    if files is not None:
        missing = [file for file in files if not Path(file).is_file()]
        if missing:
            raise ModelError(f"{missing[0]}: no such file of word vectors.")
        kinds: list[Vectors | States] = [Vectors(*files, across, given.tokens)]
    else:
        kinds = [States(given.model, layer, across) for layer in _layers(given, bool(validation))]
    alphas = ALPHAS if given.alpha is None and validation else (ALPHA if given.alpha is None else given.alpha,)
    if len(kinds) * len(alphas) == 1:
        return Settled(kinds[0], given.longest, alphas[0])
    table = kendalls(kinds, alphas, given.longest, validation, batch_tokens)
    best = int(numpy.nanargmax(table)) if not numpy.isnan(table).all() else 0
    open_ones = [name for name, values in (("layer", kinds), ("alpha", alphas)) if len(values) > 1]
    row, column = divmod(best, len(alphas))
    return Settled(kinds[row], given.longest, alphas[column], chosen=tuple(open_ones))


def _layers(given: OneLanguage | TwoLanguages, rated: bool) -> Sequence[int]:
    from pipeline.core.models import load_config, locate
    from pipeline.teachers.matching import tuned_layer

    if given.layer is not None:
        return (given.layer,)
    return range(1, load_config(locate(given.model)).num_hidden_layers + 1) if rated else (tuned_layer(given.model),)


def kendalls(
    kinds: Sequence[Vectors | States], alphas: Sequence[float], longest: int, rows: Sequence[Row], batch_tokens: int
) -> numpy.ndarray:
    """Mean Kendall over language pairs on the rated `rows`, (kinds, alphas): the study of alpha (002, figure 1).

    NaN if people's ratings or the scores are constant on every pair, and for YiSi-2 if no row has a source.
    """
    across = kinds[0].across
    rated = [row for row in rows if not across or row["source"] is not None]
    groups = [
        group for _, group in pandas.DataFrame(rated, columns=list(rows[0])).groupby("language_pair", dropna=False)
    ]
    found = numpy.full((len(kinds), len(alphas), max(1, len(groups))), numpy.nan)
    for number, kind in enumerate(kinds):
        for place, group in enumerate(groups):
            left, human = list(group["source" if across else "reference"]), group["score"].to_numpy(float)
            with contextlib.suppress(UnreadableError):
                values = compared(kind, left, list(group["candidate"]), longest, batch_tokens)
                found[number, :, place] = [kendall(human, f_score(values, alpha)) for alpha in alphas]
    known = ~numpy.isnan(found)
    return numpy.where(known.any(2), numpy.nansum(found, axis=2) / numpy.maximum(known.sum(2), 1), numpy.nan)


def _one(texts: Texts, settings: Settled, batch_tokens: int) -> numpy.ndarray:
    values = compared(settings.kind, texts.reference, list(texts.candidates), settings.longest, batch_tokens)
    return f_score(values, settings.alpha)


def _across(texts: Texts, settings: Settled, batch_tokens: int) -> numpy.ndarray:
    sources = [source for source in texts.sources if source is not None]
    values = compared(settings.kind, sources, list(texts.candidates), settings.longest, batch_tokens)
    return f_score(values, settings.alpha)


def _comb(texts: Texts, settings: Settled, batch_tokens: int) -> numpy.ndarray:
    """F of the least recall and the greatest precision over the references of each segment."""
    places = numpy.array([place for place, references in enumerate(texts.references) for _ in references])
    left = [text for references in texts.references for text in references]
    right = [texts.candidates[place] for place in places]
    values = pandas.DataFrame(compared(settings.kind, left, right, settings.longest, batch_tokens))
    of_segments = values.groupby(places)
    least = numpy.stack([of_segments[0].max().to_numpy(float), of_segments[1].min().to_numpy(float)], axis=1)
    return f_score(least, settings.comb_alpha)


def _signature(name: str, settings: Settled) -> str:
    alpha = settings.comb_alpha if name == "YiSi-comb" else settings.alpha
    chosen = f", {' and '.join(settings.chosen)} best on validation" if settings.chosen else ""
    return f"{name}, {settings.kind}, n-grams of {settings.longest}, alpha {alpha:g}{chosen}, IDF of corpus and pair"


def _models(settings: Settled) -> tuple[str, ...]:
    if isinstance(settings.kind, Vectors):
        return settings.kind.left, settings.kind.candidate
    return (settings.kind.model,) if isinstance(settings.kind, States) else ()


SPELLED = Section("yisi0", Spelled, _models, _spelled)
ONE_LANGUAGE = Section("yisi1", OneLanguage, _models, _one_language)
TWO_LANGUAGES = Section("yisi2", TwoLanguages, _models, _two_languages)


def _metric(
    name: str, title: str, reads: Reads, score: Callable[[Texts, Settled, int], numpy.ndarray], section: Section
) -> Metric:
    found = Metric(name, reads | Reads.CANDIDATE, score, partial(_signature, title), section=section, title=title)
    return replace(found, can_read=has_words) if section is SPELLED else found


METRICS = (
    _metric("yisi0", "YiSi-0", Reads.REFERENCE, _one, SPELLED),
    _metric("yisi1", "YiSi-1", Reads.REFERENCE, _one, ONE_LANGUAGE),
    _metric("yisi_comb", "YiSi-comb", Reads.REFERENCES, _comb, ONE_LANGUAGE),
    _metric("yisi2", "YiSi-2", Reads.SOURCE, _across, TWO_LANGUAGES),
)
