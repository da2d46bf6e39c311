"""Sentence BLEU as Moses computes it (section 4.2, A.3): `sentence-bleu` on the tokens of the Moses tokenizer.

Moses adds 1 to matches and totals of all four orders; sacrebleu's smoothing `add-k` leaves unigrams as they are. So
sacremoses makes the tokens, sacrebleu the n-grams, and the ten lines of arithmetic are here. Tokens keep their case and
are not XML-escaped (escaping maps tokens one to one and changes no count).
"""

import functools
import math
from collections.abc import Sequence
from pathlib import Path

import numpy
import pyarrow
from sacrebleu.metrics.helpers import extract_word_ngrams
from sacremoses import MosesTokenizer

from pipeline.core.params import params

COLUMNS = ("bleu",)
"""In [0, 1]; higher is better."""

ORDERS = (1, 2, 3, 4)

UNSEGMENTED = ("ja", "zh")
"""For these languages Moses expects text that is cut into words; its English rules make every character a token."""


@params
class Params:
    """The tokenizer's language."""

    language: str
    """ISO 639-1 code; if Moses lists no abbreviations for the language, it takes those of English."""


def models(params: Params) -> tuple[Path, ...]:
    """None."""
    return ()


def score(pairs: pyarrow.Table, params: Params) -> numpy.ndarray:
    """BLEU of each pair, (rows, 1) float32 in [0, 1]."""
    return bleu(pairs.column("reference").to_pylist(), pairs.column("candidate").to_pylist(), params)


def bleu(references: Sequence[str], candidates: Sequence[str], params: Params) -> numpy.ndarray:
    """Sentence BLEU of each candidate against its reference, (n, 1) float32 in [0, 1], higher is better.

    Each unique string is tokenized once. An equal candidate has 1, an empty one 0.
    """
    tokenizer = MosesTokenizer("en" if params.language in UNSEGMENTED else params.language)
    tokens = functools.cache(lambda text: tuple(tokenizer.tokenize(text, escape=False)))
    rows = [token_bleu(tokens(z), tokens(c)) for z, c in zip(references, candidates, strict=True)]
    return numpy.array(rows, numpy.float32).reshape(-1, 1)


def token_bleu(reference: Sequence[str], candidate: Sequence[str]) -> float:
    """BLEU of one tokenized pair.

    For "a b c" and "a b": matches 2, 1, 0, 0 of 2, 1, 0, 0; all ratios (m + 1) / (t + 1) are 1; brevity exp(1 - 3/2).

    >>> round(token_bleu(["a", "b", "c"], ["a", "b"]), 4)
    0.6065
    """
    if not candidate:
        return 0.0
    log_precision = 0.0
    for order in ORDERS:
        found = extract_word_ngrams(list(candidate), order)
        matches = (found & extract_word_ngrams(list(reference), order)).total()
        log_precision += math.log((matches + 1) / (found.total() + 1))
    brevity = min(0.0, 1 - len(reference) / len(candidate))
    return math.exp(log_precision / len(ORDERS) + brevity)
