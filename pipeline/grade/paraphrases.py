"""Paraphrases out of parallel text: two sentences say the same thing if they translate the same sentence.

This is the pivoting of Bannard and Callison-Burch 2005, on whole sentences. Sentences of everyday language are short.
So several of them are joined, to texts as long as those that systems translate.
"""

import functools
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Annotated, Self

import numpy
from pydantic import Field, model_validator

from pipeline.core.errors import InputError
from pipeline.core.params import AtLeastOne, params
from pipeline.core.scripts import length
from pipeline.core.shards import generator
from pipeline.files.parallel import TextSource, check_sources, parallel_sentences
from pipeline.grade.kinds import Sentence


@params
class ParaphraseParams:
    """Which sentences become paraphrases."""

    sources: tuple[TextSource, ...]
    """Files of parallel text."""
    min_words: AtLeastOne
    """Shorter sentences are left out."""
    max_overlap: Annotated[float, Field(gt=0, le=1)]
    """Two sentences with a larger overlap are no paraphrases (see `overlap`)."""
    longest: AtLeastOne
    """Most sentences that are joined."""

    @model_validator(mode="after")
    def _tells_sources_apart(self) -> Self:
        check_sources(self.sources)
        return self


MOST_VERSIONS = 10
"""Of the sentences with one translation, only the first so many are paired with each other."""


@functools.lru_cache(maxsize=1)
def paraphrased(params: ParaphraseParams, seed: int) -> Sequence[Sentence]:
    """Texts with a paraphrase and a translation, in random order. Each joins one to `longest` sentences of a file."""
    rng = generator(seed, "grade", "paraphrases")
    found = [sentence for source in params.sources for sentence in _joined(_read(source, params, rng), params, rng)]
    return [found[i] for i in rng.permutation(len(found))]


def _joined(sentences: Sequence[Sentence], params: ParaphraseParams, rng: numpy.random.Generator) -> Iterator[Sentence]:
    """`sentences` in random order, joined; how many sentences each text joins is drawn."""
    order = [sentences[i] for i in rng.permutation(len(sentences))]
    first = 0
    while first < len(order):
        parts = order[first : first + int(rng.integers(1, params.longest + 1))]
        first += len(parts)
        texts = (" ".join(getattr(part, side) for part in parts) for side in ("text", "paraphrase", "foreign"))
        yield Sentence(parts[0].id, *texts)


def overlap(one: str, other: str) -> float:
    """Share of the distinct words of two texts that stand in both: 0 (no word in common) to 1 (the same words).

    Case does not count, nor does punctuation at a word's edges.

    >>> overlap("I saw it.", "It saw you!")
    0.5
    """
    words, others = ({word.strip(".,;:!?\"'") for word in text.lower().split()} for text in (one, other))
    return len(words & others) / max(1, len(words | others))


def _read(source: TextSource, params: ParaphraseParams, rng: numpy.random.Generator) -> list[Sentence]:
    """All pairs of sentences of `source` with the same translation. Which of the two is the reference is drawn."""
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
