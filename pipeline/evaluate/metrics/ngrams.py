"""Metrics that count words and n-grams: BLEU, chrF and TER by sacrebleu, ROUGE by rouge-score, METEOR by nltk.

sacrebleu scores segments, as in the paper (section 5.1, B.2), and whole systems. For segments: `sentbleu`,
`chrf++` (words beside characters) and `ter`, negated because it is an error rate. The paper's sentBLEU is that of Moses
on Moses tokens. Ours is sacrebleu's (13a tokens, exponential smoothing, effective order), which everybody can repeat
from its signature. For systems: `bleu` and `chrf` (chrF2), sacrebleu's corpus scores. Ranges: BLEU and chrF 0 to 100,
TER at most 0 (minus the edits per 100 words of the reference).

ROUGE-2 and ROUGE-L: F of common bigrams, and of the longest common subsequence (Lin 2004). From 0 to 1. Texts are
lower-cased, words are not stemmed. rouge-score knows Latin letters and digits only.

METEOR (Banerjee and Lavie 2005): words and Porter stems that match, and how scattered they are. From 0 to 1. Synonyms
are left out: they need WordNet, which no package includes. Words are sacrebleu's 13a tokens.
"""

import itertools
import re
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy

from pipeline.core.scripts import SPACELESS, main_script
from pipeline.evaluate.metrics import Corpus, Level, Metric, Reads, Texts

PAIR = Reads.REFERENCE | Reads.CANDIDATE


def sacrebleu_metric(name: str) -> Any:
    """The metric of sacrebleu behind a name of `METRICS`."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    kinds: dict[str, Callable[[], Any]] = {
        "sentbleu": partial(BLEU, effective_order=True),
        "chrf++": partial(CHRF, word_order=2),
        "ter": TER,
        "bleu": BLEU,
        "chrf": CHRF,
    }
    return kinds[name]()


def has_words(texts: Texts) -> bool:
    """Whether most references are written with blanks between words, at which sentence BLEU, TER and METEOR split."""
    known = [main_script(text) not in SPACELESS for text in texts.reference]
    return 2 * sum(known) >= len(known)


def _sentences(name: str, sign: float, texts: Texts, settings: None, batch_tokens: int) -> numpy.ndarray:
    """Scores of the segments times `sign`. "a b c d" against "a b c e" in TER: one edit of four words, -25."""
    metric = sacrebleu_metric(name)
    found = [metric.sentence_score(c, [z]).score for z, c in texts.pairs]
    return sign * numpy.array(found, dtype=numpy.float64)


def _sentence_signature(name: str, end: str, settings: None) -> str:
    metric = sacrebleu_metric(name)
    metric.sentence_score("a", ["a"])  # the signature states how many references were seen
    return f"{metric.get_signature()}{end}"


class CorpusScore:
    """A corpus score of sacrebleu; a segment may have fewer references than another."""

    def __init__(self, name: str) -> None:
        self._metric = sacrebleu_metric(name)

    def counts(self, texts: Texts) -> numpy.ndarray:
        """What sacrebleu counts in each segment, float64 (segments, counts)."""
        streams = list(itertools.zip_longest(*texts.references))
        return numpy.array(self._metric._extract_corpus_statistics(texts.candidates, streams), dtype=numpy.float64)

    def total(self, counts: numpy.ndarray) -> float:
        """The corpus score, equal to sacrebleu's `corpus_score`; for TER, lower is better."""
        return float(self._metric._compute_score_from_stats(counts.tolist()).score)

    def signature(self) -> str:
        """Sacrebleu's."""
        return str(self._metric.get_signature())


def _system(name: str, texts: Texts, settings: None, batch_tokens: int) -> numpy.ndarray:
    corpus = CorpusScore(name)
    return numpy.array(corpus.total(corpus.counts(texts).sum(axis=0)))


def _system_signature(name: str, settings: None) -> str:
    corpus = CorpusScore(name)
    corpus.counts(Texts((("a",),), (None,), ("a",)))
    return f"corpus, all references, {corpus.signature().removeprefix('nrefs:1|')}"


def _of_segments(name: str, **declared: Any) -> Metric:
    sign, end = (-1.0, ", negated") if name == "ter" else (1.0, "")
    return Metric(name, PAIR, partial(_sentences, name, sign), partial(_sentence_signature, name, end), **declared)


def _of_systems(name: str, title: str, **declared: Any) -> Metric:
    reads = Reads.REFERENCES | Reads.CANDIDATE
    corpus: Callable[[], Corpus] = partial(CorpusScore, name)
    score, signature = partial(_system, name), partial(_system_signature, name)
    return Metric(name, reads, score, signature, Level.SYSTEM, title=title, corpus=corpus, **declared)


def _rouge(name: str, texts: Texts, settings: None, batch_tokens: int) -> numpy.ndarray:
    """F of each candidate against its reference, float64 (n,); an empty candidate scores 0.

    ROUGE-2 of "a b c d" and "a b c": bigrams ab, bc, cd and ab, bc; precision 1, recall 2/3, F 0.8.
    """
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer([name], use_stemmer=False)
    return numpy.array([scorer.score(z, c)[name].fmeasure for z, c in texts.pairs], dtype=numpy.float64)


def _rouge_signature(name: str, settings: None) -> str:
    return f"rouge-score {name} F, lower-cased, no stemming"


def _has_letters(texts: Texts) -> bool:
    """Whether most references hold a letter or digit that rouge-score knows."""
    known = [re.search("[a-z0-9]", text.lower()) is not None for text in texts.reference]
    return 2 * sum(known) >= len(known)


def _of_rouge(name: str) -> Metric:
    return Metric(name, PAIR, partial(_rouge, name), partial(_rouge_signature, name), can_read=_has_letters)


class _NoSynonyms:
    """Stands in for WordNet, which nltk expects."""

    def synsets(self, word: str) -> list[object]:
        return []


def _meteor(texts: Texts, settings: None, batch_tokens: int) -> numpy.ndarray:
    """METEOR of each candidate against its reference, float64 (n,); an empty candidate scores 0."""
    from nltk.translate.meteor_score import single_meteor_score
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    words = Tokenizer13a()  # type: ignore[no-untyped-call]
    found = [single_meteor_score(words(z).split(), words(c).split(), wordnet=_NoSynonyms()) for z, c in texts.pairs]
    return numpy.array(found, dtype=numpy.float64)


def _meteor_signature(settings: None) -> str:
    """Library, tokens and what may match."""
    return f"nltk {version('nltk')} METEOR, 13a tokens, lower-cased, exact and Porter stems, no synonyms"


METRICS = (
    _of_segments("sentbleu", can_read=has_words),
    _of_segments("chrf++"),
    _of_segments("ter", can_read=has_words, title="TER", corpus=partial(CorpusScore, "ter")),
    _of_systems("bleu", "BLEU", can_read=has_words),
    _of_systems("chrf", "chrF2"),
    Metric("meteor", PAIR, _meteor, _meteor_signature, can_read=has_words),
    _of_rouge("rouge2"),
    _of_rouge("rougeL"),
)
