"""How similar two tokens are: by spelling, by word vectors, or by an encoder's states; and texts compared that way."""

import enum
import functools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy
from numpy.typing import NDArray

from pipeline.evaluate.metrics import UnreadableError
from pipeline.evaluate.phrases import Weights, learn_weights, precision_recall

Array = NDArray[numpy.float64]

BLOCK_PAIRS = 2048
"""Pairs whose states are in memory together: about 0.2 GB at 30 tokens and 384 dimensions."""


class Tokens(enum.StrEnum):
    """Where words end: at blanks (for texts that are tokens already), or by sacrebleu's 13a tokenizer."""

    BLANKS = "blanks"
    MT13A = "13a"


def split(texts: Sequence[str], tokens: Tokens) -> list[list[str]]:
    """The words of each text.

    >>> split(["Yes, we can."], Tokens.MT13A), split(["Yes, we can."], Tokens.BLANKS)
    ([['Yes', ',', 'we', 'can', '.']], [['Yes,', 'we', 'can.']])
    """
    if tokens is Tokens.BLANKS:
        return [text.split() for text in texts]
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    words = Tokenizer13a()  # type: ignore[no-untyped-call]
    return [words(text).split() for text in texts]


@dataclass(frozen=True)
class Spelling:
    """Twice the length of the longest common substring by the sum of both lengths."""

    tokens: Tokens
    across: bool = False

    def __str__(self) -> str:
        return f"longest common substring, {self.tokens} tokens"


@dataclass(frozen=True)
class Vectors:
    """Cosines of word vectors in the files `left` and `candidate`; `across` languages equal words may differ."""

    left: str
    candidate: str
    across: bool
    tokens: Tokens

    def __str__(self) -> str:
        files = dict.fromkeys(Path(file).name for file in (self.left, self.candidate))
        return f"word vectors {' and '.join(files)}, {self.tokens} tokens"


@dataclass(frozen=True)
class States:
    """Cosines of the hidden states of `layer` of the encoder `model`."""

    model: str
    layer: int
    across: bool

    def __str__(self) -> str:
        return f"{self.model}, layer {self.layer}"


Kind = Spelling | Vectors | States


def compared(kind: Kind, left: Sequence[str], candidates: Sequence[str], longest: int, batch_tokens: int) -> Array:
    """Precision and recall of each candidate against the text at its left, (n, 2), from 0 to 1.

    `left`: references, or sources if `kind.across`. Weights are learnt on the left texts, each counted once; across
    languages those of candidates on the candidates. An UnreadableError if an encoder knows less than half of the tokens
    of a side.
    """
    assert len(left) == len(candidates), (len(left), len(candidates))
    if isinstance(kind, States):
        return _by_states(kind, left, candidates, longest, batch_tokens)
    texts = list(dict.fromkeys((*left, *candidates)))
    words = dict(zip(texts, split(texts, kind.tokens), strict=True))
    weights, candidate_weights = _learn(words, left, candidates, kind.across)
    similarity = _spelled if isinstance(kind, Spelling) else _by_vectors(kind)
    found = [
        precision_recall(similarity(words[z], words[c]), weights.of(words[z]), candidate_weights.of(words[c]), longest)
        for z, c in zip(left, candidates, strict=True)
    ]
    return numpy.array(found).reshape(-1, 2)


def _learn(
    tokens: Mapping[str, Sequence[Hashable]], left: Sequence[str], candidates: Sequence[str], across: bool
) -> tuple[Weights, Weights]:
    weights = learn_weights(tokens[text] for text in dict.fromkeys(left))
    return weights, learn_weights(tokens[text] for text in dict.fromkeys(candidates)) if across else weights


def _spelled(left: Sequence[str], candidate: Sequence[str]) -> Array:
    return numpy.array([[common_substring(z, c) for c in candidate] for z in left]).reshape(len(left), len(candidate))


@functools.lru_cache(maxsize=1 << 20)
def common_substring(one: str, other: str) -> float:
    """Twice the length of the longest common substring by the sum of both lengths; case counts.

    >>> common_substring("justified", "justify")  # "justif" is common
    0.75
    """
    longest = 0
    for start in range(len(one)):
        while start + longest < len(one) and one[start : start + longest + 1] in other:
            longest += 1
    return 2.0 * longest / (len(one) + len(other))


def _by_vectors(kind: Vectors) -> Callable[[Sequence[str], Sequence[str]], Array]:
    from pipeline.teachers.word_vectors import load_word_vectors

    left_vectors, candidate_vectors = (load_word_vectors(Path(file)) for file in (kind.left, kind.candidate))

    def similarity(left: Sequence[str], candidate: Sequence[str]) -> Array:
        cosines: Array = numpy.maximum(0.0, left_vectors.of(left) @ candidate_vectors.of(candidate).T)
        equal = numpy.array([[z.lower() == c.lower() for c in candidate] for z in left]).reshape(cosines.shape)
        if kind.across:
            known = [[vectors.knows(word) for word in words] for vectors, words in
                     ((left_vectors, left), (candidate_vectors, candidate))]  # fmt: skip
            equal &= ~(numpy.array(known[0], dtype=bool)[:, None] & numpy.array(known[1], dtype=bool))
        return numpy.where(equal, 1.0, cosines)

    return similarity


def _by_states(kind: States, left: Sequence[str], candidates: Sequence[str], longest: int, batch_tokens: int) -> Array:
    from pipeline.teachers.states import tokenize, unit_states

    texts = {text: row for row, text in enumerate(dict.fromkeys((*left, *candidates)))}
    tokenized = tokenize(kind.model, kind.layer, list(texts))
    ids = {text: tokenized.ids[row] for text, row in texts.items()}
    for side, given in (("sources" if kind.across else "references", left), ("candidates", candidates)):
        tokens = [token for text in dict.fromkeys(given) for token in ids[text]]
        if 2 * tokens.count(tokenized.encoder.tokenizer.unk_token_id) > len(tokens):
            raise UnreadableError(f"{kind.model} does not know most of the words of the {side}")
    weights, candidate_weights = _learn(ids, left, candidates, kind.across)
    found = numpy.zeros((len(left), 2))
    for rows in _blocks(left):
        wanted = sorted({texts[text] for row in rows for text in (left[row], candidates[row])})
        states = {row: vectors.numpy() for row, vectors in unit_states(tokenized, wanted, batch_tokens)}
        for row in rows:
            z, c = left[row], candidates[row]
            cosines = numpy.maximum(0.0, states[texts[z]] @ states[texts[c]].T)
            found[row] = precision_recall(cosines, weights.of(ids[z]), candidate_weights.of(ids[c]), longest)
    return found


def _blocks(left: Sequence[str]) -> Iterator[list[int]]:
    """Row numbers in blocks, rows of one left text together, so that few texts are encoded twice."""
    order = sorted(range(len(left)), key=lambda row: left[row])
    for start in range(0, len(order), BLOCK_PAIRS):
        yield order[start : start + BLOCK_PAIRS]
