"""Sentence pairs as the encoder reads them: [CLS] reference [SEP] candidate [SEP] (paper, section 3).

Millions of pairs are kept as flat arrays, about 4 bytes a token: ids end to end, where each pair starts, and where its
second segment starts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy
import torch
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from pipeline.core.errors import ModelError

CHUNK_PAIRS, CHUNK_CHARACTERS = 8192, 2_000_000
"""Pairs, and about as many characters, that are tokenised at once; their tokens are objects for that long alone."""


@dataclass(frozen=True)
class EncodedPairs:
    """n pairs in tokens.

    `ids` (tokens,) int32: all pairs end to end. `starts` (n + 1,) int64: pair i is `ids[starts[i]:starts[i + 1]]`.
    `seconds` (n,) int32: tokens of pair i before its second segment. `typed`: the model reads segment types. `cut`
    (n,): whether pair i was longer than `max_tokens`.
    """

    ids: NDArray[numpy.int32]
    starts: NDArray[numpy.int64]
    seconds: NDArray[numpy.int32]
    pad_id: int
    typed: bool
    cut: NDArray[numpy.bool_]

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.seconds)

    @property
    def lengths(self) -> NDArray[numpy.int64]:
        """Tokens of every pair, special tokens included: (n,)."""
        return numpy.diff(self.starts)

    @property
    def truncated(self) -> int:
        """Number of pairs that were cut."""
        return int(self.cut.sum())

    def batch(self, rows: Sequence[int] | NDArray[numpy.int64], device: str) -> dict[str, torch.Tensor]:
        """Model inputs of `rows`, padded to the longest of them: tensors (rows, longest)."""
        chosen = numpy.asarray(rows)
        starts = self.starts[chosen]
        lengths = self.starts[chosen + 1] - starts
        columns = numpy.arange(lengths.max())
        mask = columns < lengths[:, None]
        places = numpy.where(mask, starts[:, None] + columns, 0)
        inputs = {"input_ids": numpy.where(mask, self.ids[places], self.pad_id), "attention_mask": mask}
        if self.typed:
            inputs["token_type_ids"] = mask & (columns >= self.seconds[chosen][:, None])
        return {name: torch.from_numpy(value.astype(numpy.int64)).to(device) for name, value in inputs.items()}

    def take(self, rows: NDArray[numpy.int64]) -> "EncodedPairs":
        """The pairs `rows` alone."""
        parts = [self.ids[self.starts[row] : self.starts[row + 1]] for row in rows]
        starts = _starts(self.lengths[rows])
        return EncodedPairs(_flat(parts), starts, self.seconds[rows], self.pad_id, self.typed, self.cut[rows])


def _flat(parts: Sequence[NDArray[numpy.int32]]) -> NDArray[numpy.int32]:
    return numpy.concatenate([numpy.zeros(0, numpy.int32), *parts])


def _starts(lengths: NDArray[numpy.int64]) -> NDArray[numpy.int64]:
    return numpy.concatenate([numpy.zeros(1, numpy.int64), numpy.cumsum(lengths, dtype=numpy.int64)])


def join(parts: Sequence[EncodedPairs]) -> EncodedPairs:
    """All pairs of `parts`, in order, which one tokenizer made; nothing where there are no parts."""
    if not parts:
        return EncodedPairs(_flat([]), _starts(numpy.zeros(0, numpy.int64)), _flat([]), 0, False, numpy.zeros(0, bool))
    return EncodedPairs(
        _flat([part.ids for part in parts]),
        _starts(numpy.concatenate([part.lengths for part in parts])),
        _flat([part.seconds for part in parts]),
        parts[0].pad_id,
        parts[0].typed,
        numpy.concatenate([part.cut for part in parts]),
    )


def encode_pairs(
    tokenizer: PreTrainedTokenizerBase, references: Sequence[str], candidates: Sequence[str], max_tokens: int
) -> EncodedPairs:
    """Tokenise pairs; too long a pair loses words from the end of its longer side until it fits."""
    return join(
        [_encode(tokenizer, references[i:j], candidates[i:j], max_tokens) for i, j in _cuts(references, candidates)]
    )


def _cuts(references: Sequence[str], candidates: Sequence[str]) -> Iterator[tuple[int, int]]:
    """First and last place (not included) of every chunk of pairs."""
    first = characters = 0
    for place, pair in enumerate(zip(references, candidates, strict=True)):
        size = sum(map(len, pair))
        if place > first and (place - first >= CHUNK_PAIRS or characters + size > CHUNK_CHARACTERS):
            yield first, place
            first, characters = place, 0
        characters += size
    if first < len(references):
        yield first, len(references)


def kept_tokens(sides: Sequence[int | None], max_tokens: int) -> list[int]:
    """Places of the tokens of a pair that stay when it is cut to `max_tokens`: the longer side loses its end.

    `sides`: for every token the sentence that it is of, 0 or 1, or None for a special token, which stays. The same
    tokens stay as with the strategy "longest_first" of fast tokenizers, whose time and memory grow with the product
    of the two lengths.

    >>> kept_tokens([None, 0, 0, 0, 0, None, 1, 1, None], 7)
    [0, 1, 2, 5, 6, 7, 8]
    """
    lengths = [sides.count(0), sides.count(1)]
    room = max_tokens - (len(sides) - sum(lengths))
    longer = int(lengths[1] >= lengths[0])
    keep = [min(length, room // 2) for length in lengths]
    keep[longer] = min(lengths[longer], room - keep[1 - longer])
    seen, places = [0, 0], []
    for place, side in enumerate(sides):
        if side is not None:
            seen[side] += 1
        if side is None or seen[side] <= keep[side]:
            places.append(place)
    return places


def _encode(
    tokenizer: PreTrainedTokenizerBase, references: Sequence[str], candidates: Sequence[str], max_tokens: int
) -> EncodedPairs:
    got = tokenizer(
        list(references), list(candidates), padding=False, truncation=False, verbose=False, return_attention_mask=False
    )
    rows, types = got["input_ids"], got.get("token_type_ids")
    cut = numpy.array([len(row) > max_tokens for row in rows], dtype=bool)
    for place in numpy.flatnonzero(cut).tolist():
        kept = kept_tokens(got.sequence_ids(place), max_tokens)
        rows[place] = [rows[place][i] for i in kept]
        if types is not None:
            types[place] = [types[place][i] for i in kept]
    lengths = numpy.array([len(row) for row in rows], dtype=numpy.int64)
    seconds = lengths.astype(numpy.int32) if types is None else _second_segments(tokenizer, types)
    ids = numpy.fromiter((token for row in rows for token in row), numpy.int32, count=int(lengths.sum()))
    return EncodedPairs(ids, _starts(lengths), seconds, tokenizer.pad_token_id or 0, types is not None, cut)


def _second_segments(tokenizer: PreTrainedTokenizerBase, types: Sequence[Sequence[int]]) -> NDArray[numpy.int32]:
    """How many 0s stand before the 1s of each row; other segment types than these are a ModelError."""
    seconds = [len(row) - sum(row) for row in types]
    for row, second in zip(types, seconds, strict=True):
        if any(row[:second]) or not all(row[second:]):
            raise ModelError(f"{tokenizer.name_or_path}: segments must be numbered 0, then 1, to be read as pairs.")
    return numpy.array(seconds, dtype=numpy.int32)
