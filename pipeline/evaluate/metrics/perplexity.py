"""How probable a causal language model finds the candidate: perplexity, and its logarithm as in GPTScore.

perplexity: exp of the mean negative log likelihood of the candidate's tokens, negated so that higher is better; at most
-1. perplexity_pooled: the same over all tokens of a system's candidates together. gptscore: the mean log likelihood of
a token (Fu et al. 2023), without their prompts and aspects. None of them reads a reference: they measure fluency, and
favour what is short of rare words. A candidate without a token has no number. `pipeline.teachers.language_model` says
how a text is read.
"""

from functools import partial

import numpy

from pipeline.core.params import ModelName, params
from pipeline.evaluate.metrics import Level, Metric, Reads, Section, Texts


@params
class Params:
    """Section `evaluate.perplexity`: a causal language model."""

    model: ModelName


def _logs(texts: Texts, settings: Params, batch_tokens: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Log probability and number of tokens of each candidate."""
    from pipeline.teachers.language_model import load_language_model

    found = load_language_model(settings.model).log_likelihood(texts.candidates, batch_tokens)
    return found.log_probability, found.tokens


def _mean(sums: numpy.ndarray, tokens: numpy.ndarray) -> numpy.ndarray:
    """Mean log probability of a token; NaN if there is none."""
    return numpy.where(tokens > 0, sums / numpy.maximum(tokens, 1), numpy.nan)


def _gptscore(texts: Texts, settings: Params, batch_tokens: int) -> numpy.ndarray:
    return _mean(*_logs(texts, settings, batch_tokens))


def _perplexity(texts: Texts, settings: Params, batch_tokens: int) -> numpy.ndarray:
    found: numpy.ndarray = -numpy.exp(-_gptscore(texts, settings, batch_tokens))
    return found


def _pooled(texts: Texts, settings: Params, batch_tokens: int) -> numpy.ndarray:
    sums, tokens = _logs(texts, settings, batch_tokens)
    return numpy.asarray(-numpy.exp(-_mean(sums.sum(), tokens.sum())))


def _signature(what: str, settings: Params) -> str:
    return f"{what} of the candidate, {settings.model}"


SECTION = Section("perplexity", Params, lambda settings: (settings.model,))
METRICS = (
    Metric("perplexity", Reads.CANDIDATE, _perplexity, partial(_signature, "minus the perplexity"), section=SECTION),
    Metric(
        "perplexity_pooled",
        Reads.CANDIDATE,
        _pooled,
        partial(_signature, "minus the perplexity of all tokens"),
        Level.SYSTEM,
        section=SECTION,
    ),
    Metric("gptscore", Reads.CANDIDATE, _gptscore, partial(_signature, "mean log likelihood"), section=SECTION),
)
