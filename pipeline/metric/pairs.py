"""Sentence pairs as the encoder reads them: [CLS] reference [SEP] candidate [SEP] (paper, section 3).

Pairs are kept as flat arrays, about 4 bytes a token: the ids of all pairs one after the other, the place where each
pair begins, and the place where its candidate begins.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from pipeline.core.errors import ModelError
from pipeline.core.originals import CUT
from pipeline.metric.apart import TextsApart

CHUNK_PAIRS, CHUNK_CHARACTERS = 1024, 500_000
"""The most pairs, and about the most characters, that are tokenised at once. It bounds the memory that this takes."""


@dataclass(frozen=True)
class EncodedPairs:
    """n pairs in tokens.

    `ids` (tokens,) int32: the tokens of all pairs. `starts` (n + 1,) int64: pair i is `ids[starts[i]:starts[i + 1]]`.
    `seconds` (n,) int32: how many tokens of pair i stand before its candidate. `typed`: the model reads segment types,
    0 up to there and 1 from there on. `cut` (n,): whether pair i was longer than `max_tokens`.
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
        """Model inputs of `rows`, padded on the right to the longest of them: int64 tensors (rows, longest).

        This is the one padding of pairs. In numpy it takes a third of the time of torch's `pad_sequence`.
        """
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
        """Only the pairs `rows`, in that order."""
        parts = [self.ids[self.starts[row] : self.starts[row + 1]] for row in rows]
        starts = _starts(self.lengths[rows])
        return EncodedPairs(_flat(parts), starts, self.seconds[rows], self.pad_id, self.typed, self.cut[rows])


def _flat(parts: Sequence[NDArray[numpy.int32]]) -> NDArray[numpy.int32]:
    return numpy.concatenate([numpy.zeros(0, numpy.int32), *parts])


def _starts(lengths: NDArray[numpy.int64]) -> NDArray[numpy.int64]:
    return numpy.concatenate([numpy.zeros(1, numpy.int64), numpy.cumsum(lengths, dtype=numpy.int64)])


def join(parts: Sequence[EncodedPairs]) -> EncodedPairs:
    """All pairs of `parts`, in order; one tokenizer made them all. No parts give no pairs."""
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
    """Tokenise pairs; a pair of more than `max_tokens` loses the end of its longer side until it fits."""
    return join(
        [_encode(tokenizer, references[i:j], candidates[i:j], max_tokens) for i, j in _cuts(references, candidates)]
    )


def _cuts(references: Sequence[str], candidates: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Where every chunk of pairs begins, and where it ends (the first pair that is not of it)."""
    first = characters = 0
    for place, pair in enumerate(zip(references, candidates, strict=True)):
        size = sum(map(len, pair))
        if place > first and (place - first >= CHUNK_PAIRS or characters + size > CHUNK_CHARACTERS):
            yield first, place
            first, characters = place, 0
        characters += size
    if first < len(references):
        yield first, len(references)


def kept_tokens(sides: Sequence[int | None], max_tokens: int, tokenizer: Any = None) -> list[int]:
    """Places of the tokens of a pair that stay when it is cut to `max_tokens`: the longer side loses its end.

    `sides` holds 0 for a token of the reference, 1 for one of the candidate, and None for a special token, which
    always stays. The strategy "longest_first" of fast tokenizers keeps the same tokens, but its time and memory grow
    with the product of the two lengths. Here 4 and 2 words have room for 4 words, so the reference loses two:

    >>> kept_tokens([None, 0, 0, 0, 0, None, 1, 1, None], 7)
    [0, 1, 2, 5, 6, 7, 8]

    If both sides are longer than half of an odd room, the longer one keeps the odd token. An original BLEURT's
    `tokenizer` leaves it to the reference: there, of two sides of one length, the candidate loses its end.
    """
    lengths = [sides.count(0), sides.count(1)]
    room = max_tokens - (len(sides) - sum(lengths))
    longer = int(lengths[1] >= lengths[0])
    if min(lengths) > room // 2 and tokenizer is not None and tokenizer.init_kwargs.get(CUT) == "candidate":
        longer = 0
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
    if isinstance(tokenizer, TextsApart):
        return _encode_apart(tokenizer, references, candidates, max_tokens)
    got = tokenizer(
        list(references), list(candidates), padding=False, truncation=False, verbose=False, return_attention_mask=False
    )
    rows, types = got["input_ids"], got.get("token_type_ids")
    cut = numpy.array([len(row) > max_tokens for row in rows], dtype=bool)
    for place in numpy.flatnonzero(cut).tolist():
        kept = kept_tokens(got.sequence_ids(place), max_tokens, tokenizer)
        rows[place] = [rows[place][i] for i in kept]
        if types is not None:
            types[place] = [types[place][i] for i in kept]
    lengths = numpy.array([len(row) for row in rows], dtype=numpy.int64)
    seconds = lengths.astype(numpy.int32) if types is None else _second_segments(tokenizer, types)
    ids = numpy.fromiter((token for row in rows for token in row), numpy.int32, count=int(lengths.sum()))
    return EncodedPairs(ids, _starts(lengths), seconds, tokenizer.pad_token_id or 0, types is not None, cut)


def _encode_apart(
    tokenizer: TextsApart, references: Sequence[str], candidates: Sequence[str], max_tokens: int
) -> EncodedPairs:
    """Each encoder's tokens of a pair are cut to `max_tokens`; the ids of all references stand before all candidates'.

    An encoder puts its special tokens around either text.
    """
    sides: list[tuple[list[int], list[int]]] = [([], []) for _ in references]
    cut = numpy.zeros(len(sides), dtype=bool)
    for part, offset in zip(tokenizer.parts, tokenizer.offsets, strict=True):
        read = zip(part.encode_batch(list(references)), part.encode_batch(list(candidates)), strict=True)
        for place, both in enumerate(read):
            tokens = [id_ + offset for text in both for id_ in text.ids]
            kept = list(range(len(tokens)))
            if len(tokens) > max_tokens:
                marks = [None if m else side for side, text in enumerate(both) for m in text.special_tokens_mask]
                kept, cut[place] = kept_tokens(marks, max_tokens), True
            for at in kept:
                sides[place][at >= len(both[0].ids)].append(tokens[at])
    lengths = numpy.array([len(z) + len(c) for z, c in sides], dtype=numpy.int64)
    ids = numpy.fromiter((token for pair in sides for side in pair for token in side), numpy.int32, int(lengths.sum()))
    seconds = numpy.array([len(z) for z, _ in sides], dtype=numpy.int32)
    return EncodedPairs(ids, _starts(lengths), seconds, tokenizer.pad_token_id, True, cut)


def _second_segments(tokenizer: PreTrainedTokenizerBase, types: Sequence[Sequence[int]]) -> NDArray[numpy.int32]:
    """How many 0s stand before the 1s of each row; a ModelError if a row is not some 0s and then some 1s."""
    seconds = [len(row) - sum(row) for row in types]
    for row, second in zip(types, seconds, strict=True):
        if any(row[:second]) or not all(row[second:]):
            raise ModelError(f"{tokenizer.name_or_path}: segments must be numbered 0, then 1, to be read as pairs.")
    return numpy.array(seconds, dtype=numpy.int32)
