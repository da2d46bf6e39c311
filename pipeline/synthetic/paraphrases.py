"""Paraphrases out of parallel text: two sentences that translate the same sentence say the same thing.

After Bannard and Callison-Burch 2005 (pivoting), on whole sentences. Those of everyday language are short, so that
several are joined to one, as long as what systems translate.
"""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy

from pipeline.core.errors import InputError, ParamsError
from pipeline.core.params import require
from pipeline.core.seeds import generator
from pipeline.ratings.archives import local
from pipeline.ratings.table_files import open_text
from pipeline.synthetic.graded import Sentence


@dataclass(frozen=True)
class ParallelSource:
    """A text file, gzipped or not, with a sentence of the metric's language, a tab, and its translation in each line.

    Further columns are not read; `name` begins the ids of its sentences.
    """

    name: str
    path: str
    sha256: str | None


@dataclass(frozen=True)
class ParaphraseParams:
    """`max_overlap`: share of two sentences' distinct words that both hold, at most; up to `longest` are joined."""

    sources: tuple[ParallelSource, ...]
    min_words: int
    max_overlap: float
    longest: int

    def __post_init__(self) -> None:
        require(self.min_words > 0, "grade.paraphrases.min_words", "be at least 1", self.min_words)
        require(self.longest > 0, "grade.paraphrases.longest", "be at least 1", self.longest)
        require(0 < self.max_overlap <= 1, "grade.paraphrases.max_overlap", "lie between 0 and 1", self.max_overlap)
        names = [source.name for source in self.sources]
        if len(set(names)) < len(names):
            raise ParamsError("grade.paraphrases.sources: two of them have the same name.")


@functools.lru_cache(maxsize=1)
def paraphrased(params: ParaphraseParams, seed: int) -> Sequence[Sentence]:
    """Sentences with a paraphrase and a translation, in random order, one to `longest` of the files' in each."""
    rng = generator(seed, "grade", "paraphrases")
    found = [sentence for source in params.sources for sentence in _read(source, params, rng)]
    order = [found[i] for i in rng.permutation(len(found))]
    joined, start = [], 0
    while start < len(order):
        parts = order[start : start + int(rng.integers(1, params.longest + 1))]
        start += len(parts)
        texts = (" ".join(getattr(part, side) for part in parts) for side in ("text", "paraphrase", "foreign"))
        joined.append(Sentence(parts[0].id, *texts))
    return joined


def overlap(one: str, other: str) -> float:
    """Share of the distinct words of two texts that both hold; case and the punctuation at a word's edges do not count.

    >>> overlap("I saw it.", "It saw you!")
    0.5
    """
    words, others = ({word.strip(".,;:!?\"'") for word in text.lower().split()} for text in (one, other))
    return len(words & others) / max(1, len(words | others))


def _read(source: ParallelSource, params: ParaphraseParams, rng: numpy.random.Generator) -> Iterator[Sentence]:
    """Every two sentences of `source` with the same translation; which of the two is the reference is drawn."""
    file = local(source.path, source.sha256)
    versions: dict[str, list[str]] = {}
    with open_text(file) as lines:
        for number, line in enumerate(lines, start=1):
            columns = line.rstrip("\r\n").split("\t")
            if len(columns) < 2:
                raise InputError(
                    "needs two columns with a tab between them", file=file, line=number, value=line.strip()
                )
            text, foreign = (" ".join(column.split()) for column in columns[:2])
            if len(text.split()) >= params.min_words and foreign:
                versions.setdefault(foreign, []).append(text)
    count = 0
    for foreign, texts in versions.items():
        for pair in combinations(dict.fromkeys(texts), 2):
            if overlap(*pair) <= params.max_overlap:
                count += 1
                first = int(rng.integers(2))
                yield Sentence(f"{source.name}-{count}", pair[first], pair[1 - first], foreign)
