"""How probable a translator finds one text given another: PRISM (Thompson and Post 2020), and GPTScore's idea.

Scores are mean log probabilities of a token by teacher forcing, in nats, at most 0; higher is better.
likelihood_candidate: of the candidate given the reference; likelihood_reference: of the reference given the candidate;
likelihood: the mean of both, as PRISM-ref; likelihood_source: of the candidate given the source, as PRISM-src. The end
of a sentence counts as a token. PRISM's authors trained one model from 39 languages into 39 for this, which paraphrases
when it translates a language into itself. Here any Marian model will do (`pipeline.teachers.translator`); one that has
never seen the reference's language as a source, or another domain, is a worse judge.
"""

from functools import partial

import numpy

from pipeline.core.params import AtLeastOne, ModelName, params
from pipeline.evaluate.metrics import Metric, Reads, Section, Texts


@params
class Params:
    """Section `evaluate.likelihood`: the translator, and the language of references and candidates (ISO 639-1)."""

    model: ModelName
    language: str
    batch_sentences: AtLeastOne


def _given(lefts: list[str], targets: list[str], settings: Params) -> numpy.ndarray:
    from pipeline.teachers.translator import load_translator

    translator = load_translator(settings.model)
    return translator.log_likelihood(lefts, targets, settings.language, settings.batch_sentences).per_token()


def _candidate(texts: Texts, settings: Params, batch_tokens: int) -> numpy.ndarray:
    return _given(texts.reference, list(texts.candidates), settings)


def _reference(texts: Texts, settings: Params, batch_tokens: int) -> numpy.ndarray:
    return _given(list(texts.candidates), texts.reference, settings)


def _both(texts: Texts, settings: Params, batch_tokens: int) -> numpy.ndarray:
    found: numpy.ndarray = (_candidate(texts, settings, batch_tokens) + _reference(texts, settings, batch_tokens)) / 2
    return found


def _source(texts: Texts, settings: Params, batch_tokens: int) -> numpy.ndarray:
    sources = [source for source in texts.sources if source is not None]
    return _given(sources, list(texts.candidates), settings)


def _signature(what: str, settings: Params) -> str:
    return f"mean log likelihood of {what}, {settings.model} into {settings.language}"


SECTION = Section("likelihood", Params, lambda settings: (settings.model,))
PAIR = Reads.REFERENCE | Reads.CANDIDATE
KINDS = (
    ("likelihood", PAIR, _both, "candidate given reference and of reference given candidate"),
    ("likelihood_candidate", PAIR, _candidate, "candidate given reference"),
    ("likelihood_reference", PAIR, _reference, "reference given candidate"),
    ("likelihood_source", Reads.SOURCE | Reads.CANDIDATE, _source, "candidate given source"),
)
METRICS = tuple(
    Metric(name, reads, score, partial(_signature, what), section=SECTION) for name, reads, score, what in KINDS
)
