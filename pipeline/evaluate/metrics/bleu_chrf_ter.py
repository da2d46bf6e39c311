"""BLEU, chrF and TER by sacrebleu: of segments as the paper compares with (section 5.1, B.2), and of whole systems.

Of segments: `sentbleu`, `chrf++` (words beside characters) and `ter`, negated because it is an error rate. The paper's
sentBLEU is that of Moses on Moses tokens. Ours is sacrebleu's (13a tokens, exponential smoothing, effective order),
which everybody can repeat from its signature. Of systems: `bleu` and `chrf` (chrF2), sacrebleu's corpus scores.
Ranges: BLEU and chrF 0 to 100, TER at most 0 (minus the edits per 100 words of the reference).
"""

import itertools
from collections.abc import Callable
from functools import partial
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
        """The corpus score, as `corpus_score` of sacrebleu computes it too; of TER, lower is better."""
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


METRICS = (
    _of_segments("sentbleu", can_read=has_words),
    _of_segments("chrf++"),
    _of_segments("ter", can_read=has_words, title="TER", corpus=partial(CorpusScore, "ter")),
    _of_systems("bleu", "BLEU", can_read=has_words),
    _of_systems("chrf", "chrF2"),
)
