"""Paraphrases out of parallel text: two sentences that translate the same sentence say the same thing.

After Bannard and Callison-Burch 2005 (pivoting), on whole sentences. Those of everyday language are short, so that
several are joined to one, as long as what systems translate.
"""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy

from pipeline.core.errors import InputError
from pipeline.core.params import require
from pipeline.core.scripts import length
from pipeline.core.seeds import generator
from pipeline.files.parallel import TextSource, hold_distinct, parallel_sentences
from pipeline.grade.kinds import Sentence


@dataclass(frozen=True)
class ParaphraseParams:
    """`sources` are parallel text; up to `longest` sentences are joined.

    `max_overlap`: share of two sentences' distinct words that both hold, at most.
    """

    sources: tuple[TextSource, ...]
    min_words: int
    max_overlap: float
    longest: int

    def __post_init__(self) -> None:
        require(self.min_words > 0, "grade.paraphrases.min_words", "be at least 1", self.min_words)
        require(self.longest > 0, "grade.paraphrases.longest", "be at least 1", self.longest)
        require(0 < self.max_overlap <= 1, "grade.paraphrases.max_overlap", "lie between 0 and 1", self.max_overlap)
        hold_distinct("grade.paraphrases.sources", self.sources)


MOST_VERSIONS = 10
"""Sentences with the same translation that are paired with each other, at most; the first of them."""


@functools.lru_cache(maxsize=1)
def paraphrased(params: ParaphraseParams, seed: int) -> Sequence[Sentence]:
    """Sentences with a paraphrase and a translation, in random order, one to `longest` of a file's in each."""
    rng = generator(seed, "grade", "paraphrases")
    found = [sentence for source in params.sources for sentence in _joined(_read(source, params, rng), params, rng)]
    return [found[i] for i in rng.permutation(len(found))]


def _joined(sentences: Sequence[Sentence], params: ParaphraseParams, rng: numpy.random.Generator) -> Iterator[Sentence]:
    """`sentences` in random order, a drawn number of them put together at a time."""
    order = [sentences[i] for i in rng.permutation(len(sentences))]
    first = 0
    while first < len(order):
        parts = order[first : first + int(rng.integers(1, params.longest + 1))]
        first += len(parts)
        texts = (" ".join(getattr(part, side) for part in parts) for side in ("text", "paraphrase", "foreign"))
        yield Sentence(parts[0].id, *texts)


def overlap(one: str, other: str) -> float:
    """Share of the distinct words of two texts that both hold; case and the punctuation at a word's edges do not count.

    >>> overlap("I saw it.", "It saw you!")
    0.5
    """
    words, others = ({word.strip(".,;:!?\"'") for word in text.lower().split()} for text in (one, other))
    return len(words & others) / max(1, len(words | others))


def _read(source: TextSource, params: ParaphraseParams, rng: numpy.random.Generator) -> list[Sentence]:
    """Every two sentences of `source` with the same translation; which of the two is the reference is drawn."""
    versions: dict[str, list[str]] = {}
    for text, foreign in parallel_sentences(source):
        if length(text) >= params.min_words and foreign:
            versions.setdefault(foreign, []).append(text)
    found: list[Sentence] = []
    for foreign, texts in versions.items():
        for pair in combinations(list(dict.fromkeys(texts))[:MOST_VERSIONS], 2):
            if overlap(*pair) <= params.max_overlap:
                first = int(rng.integers(2))
                found.append(Sentence(f"{source.name}-{len(found) + 1}", pair[first], pair[1 - first], foreign))
    if not found:
        raise InputError("has no two sentences with the same translation that differ enough", file=source.file())
    return found
