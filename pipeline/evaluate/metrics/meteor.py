"""METEOR by nltk (Banerjee and Lavie 2005): words and Porter stems that match, and how scattered they are.

From 0 to 1. Synonyms are left out: they need WordNet, which no package brings along. Words are sacrebleu's 13a tokens.
"""

from importlib.metadata import version

import numpy

from pipeline.evaluate.metrics import Metric, Reads, Texts
from pipeline.evaluate.metrics.bleu_chrf_ter import has_words


class _NoSynonyms:
    """Stands in for WordNet, which nltk expects."""

    def synsets(self, word: str) -> list[object]:
        return []


def score(texts: Texts, settings: None, batch_tokens: int) -> numpy.ndarray:
    """METEOR of each candidate against its reference, float64 (n,); an empty candidate scores 0."""
    from nltk.translate.meteor_score import single_meteor_score
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    words = Tokenizer13a()  # type: ignore[no-untyped-call]
    found = [single_meteor_score(words(z).split(), words(c).split(), wordnet=_NoSynonyms()) for z, c in texts.pairs]
    return numpy.array(found, dtype=numpy.float64)


def signature(settings: None) -> str:
    """Library, tokens and what may match."""
    return f"nltk {version('nltk')} METEOR, 13a tokens, lower-cased, exact and Porter stems, no synonyms"


METRICS = (Metric("meteor", Reads.REFERENCE | Reads.CANDIDATE, score, signature, can_read=has_words),)
