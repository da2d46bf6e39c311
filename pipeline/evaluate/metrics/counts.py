"""The metrics that ours is compared with, each on one reference and one candidate a row (paper, section 5.1 and B.2).

Counting is left to sacrebleu, rouge-score and nltk, encoding to the signal BERTScore. Higher is better everywhere:
TER, an error rate, is negated. The paper's sentBLEU is Moses' on Moses tokens; ours is sacrebleu's sentence BLEU (13a
tokens, exponential smoothing, effective order), which anyone can reproduce from its signature. METEOR matches words and
Porter stems, not synonyms: they need WordNet, which no package brings along.
"""

import re
from collections.abc import Sequence

import nltk
import numpy
from nltk.translate.meteor_score import single_meteor_score
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from pipeline.core.scripts import SPACELESS, main_script
from pipeline.evaluate.names import Baseline


def _sacrebleu(name: Baseline) -> tuple[BLEU | CHRF | TER, float]:
    """The library's metric and the sign that turns its score into one where higher is better."""
    if name is Baseline.SENTBLEU:
        return BLEU(effective_order=True), 1.0
    if name is Baseline.CHRF:
        return CHRF(word_order=2), 1.0
    assert name is Baseline.TER, name
    return TER(), -1.0


class _NoSynonyms:
    """Stands where nltk expects WordNet."""

    def synsets(self, word: str) -> list[object]:
        return []


def _meteor(references: Sequence[str], candidates: Sequence[str]) -> list[float]:
    words = Tokenizer13a()  # type: ignore[no-untyped-call]
    return [
        single_meteor_score(words(z).split(), words(c).split(), wordnet=_NoSynonyms())
        for z, c in zip(references, candidates, strict=True)
    ]


def reads(name: Baseline, references: Sequence[str]) -> bool:
    """Whether the baseline finds words in most of `references`; where it finds none, its scores would all be alike.

    rouge-score knows Latin letters and digits alone; sentence BLEU, TER and METEOR part words at blanks.

    >>> reads(Baseline.ROUGE_L, ["Кот спит."]), reads(Baseline.TER, ["Кот спит."]), reads(Baseline.TER, ["猫在睡觉。"])
    (False, True, False)
    """
    if name in (Baseline.ROUGE_2, Baseline.ROUGE_L):
        known = [re.search("[a-z0-9]", text.lower()) is not None for text in references]
    elif name in (Baseline.SENTBLEU, Baseline.TER, Baseline.METEOR):
        known = [main_script(text) not in SPACELESS for text in references]
    else:
        return True
    return 2 * sum(known) >= len(known)


def count_words(name: Baseline, references: Sequence[str], candidates: Sequence[str]) -> numpy.ndarray:
    """Scores of a word-counting baseline: float64 (rows,).

    Ranges: sentbleu and chrf++ 0 to 100, ter at most 0 (minus the edits per 100 reference words), rouge and meteor 0 to
    1. An empty candidate scores 0 (ter: -100). "a b c d" against "a b c e" in TER: one edit of four words, -25.
    """
    if name in (Baseline.ROUGE_2, Baseline.ROUGE_L):
        scorer = RougeScorer([name.value], use_stemmer=False)
        found = [scorer.score(z, c)[name.value].fmeasure for z, c in zip(references, candidates, strict=True)]
        return numpy.array(found, dtype=numpy.float64)
    if name is Baseline.METEOR:
        return numpy.array(_meteor(references, candidates), dtype=numpy.float64)
    metric, sign = _sacrebleu(name)
    found = [metric.sentence_score(c, [z]).score for z, c in zip(references, candidates, strict=True)]
    return sign * numpy.array(found, dtype=numpy.float64)


def signature(name: Baseline) -> str:
    """What a reader needs to get the same scores of a word-counting baseline from the same library.

    >>> signature(Baseline.CHRF).split("|version")[0]
    'nrefs:1|case:mixed|eff:yes|nc:6|nw:2|space:no'
    """
    if name in (Baseline.ROUGE_2, Baseline.ROUGE_L):
        return f"rouge-score {name.value} F, lower-cased, no stemming"
    if name is Baseline.METEOR:
        return f"nltk {nltk.__version__} METEOR, 13a tokens, lower-cased, exact and Porter stems, no synonyms"
    metric, _ = _sacrebleu(name)
    metric.sentence_score("a", ["a"])  # the signature states how many references were seen
    text = str(metric.get_signature())
    return f"{text}, negated" if name is Baseline.TER else text


def encoded_signature(name: Baseline, model: str, layer: str) -> str:
    """The same of a baseline that needs an encoder: `model` is its name, `layer` says which and how it was chosen."""
    weights = "no IDF" if name is Baseline.BERTSCORE else "IDF over the references of corpus and language pair"
    value = "1 - earth mover's distance" if name is Baseline.MOVERSCORE else "F1"
    return f"{value}, {model}, {layer}, {weights}, not rescaled"
