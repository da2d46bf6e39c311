"""ROUGE-2 and ROUGE-L by rouge-score: F of common bigrams, and of the longest common subsequence (Lin 2004).

From 0 to 1. Texts are lower-cased, words are not stemmed. rouge-score knows Latin letters and digits only.
"""

import re
from functools import partial

import numpy

from pipeline.evaluate.metrics import Metric, Reads, Texts


def _score(name: str, texts: Texts, settings: None, batch_tokens: int) -> numpy.ndarray:
    """F of each candidate against its reference, float64 (n,); an empty candidate scores 0.

    ROUGE-2 of "a b c d" and "a b c": bigrams ab, bc, cd and ab, bc; precision 1, recall 2/3, F 0.8.
    """
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer([name], use_stemmer=False)
    return numpy.array([scorer.score(z, c)[name].fmeasure for z, c in texts.pairs], dtype=numpy.float64)


def _signature(name: str, settings: None) -> str:
    return f"rouge-score {name} F, lower-cased, no stemming"


def _has_letters(texts: Texts) -> bool:
    """Whether most references hold a letter or digit that rouge-score knows."""
    known = [re.search("[a-z0-9]", text.lower()) is not None for text in texts.reference]
    return 2 * sum(known) >= len(known)


def _metric(name: str) -> Metric:
    reads = Reads.REFERENCE | Reads.CANDIDATE
    return Metric(name, reads, partial(_score, name), partial(_signature, name), can_read=_has_letters)


METRICS = (_metric("rouge2"), _metric("rougeL"))
