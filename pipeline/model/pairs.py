"""Sentence pairs as the encoder reads them: [CLS] reference [SEP] candidate [SEP] (paper, section 3).

Millions of pairs are kept as flat arrays, about 4 bytes a token: ids end to end, where each pair starts, and where its
second segment starts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy
import torch
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from pipeline.core.errors import ModelError

CHUNK_PAIRS = 8192
"""Pairs that are tokenised at once; their tokens are Python objects for that long alone."""


@dataclass(frozen=True)
class EncodedPairs:
    """n pairs in tokens; `truncated` counts pairs that were longer than `max_tokens`.

    `ids` (tokens,) int32: all pairs end to end. `starts` (n + 1,) int64: pair i is `ids[starts[i]:starts[i + 1]]`.
    `seconds` (n,) int32: tokens of pair i before its second segment. `typed`: the model reads segment types.
    """

    ids: NDArray[numpy.int32]
    starts: NDArray[numpy.int64]
    seconds: NDArray[numpy.int32]
    pad_id: int
    typed: bool
    truncated: int

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.seconds)

    @property
    def lengths(self) -> NDArray[numpy.int64]:
        """Tokens of every pair, special tokens included: (n,)."""
        return numpy.diff(self.starts)

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
        """The pairs `rows` alone; `truncated` stays that of all."""
        parts = [self.ids[self.starts[row] : self.starts[row + 1]] for row in rows]
        return EncodedPairs(
            _flat(parts), _starts(self.lengths[rows]), self.seconds[rows], self.pad_id, self.typed, self.truncated
        )


def _flat(parts: Sequence[NDArray[numpy.int32]]) -> NDArray[numpy.int32]:
    return numpy.concatenate([numpy.zeros(0, numpy.int32), *parts])


def _starts(lengths: NDArray[numpy.int64]) -> NDArray[numpy.int64]:
    return numpy.concatenate([numpy.zeros(1, numpy.int64), numpy.cumsum(lengths, dtype=numpy.int64)])


def join(parts: Sequence[EncodedPairs]) -> EncodedPairs:
    """All pairs of `parts`, in order, which one tokenizer made; nothing where there are no parts."""
    if not parts:
        return EncodedPairs(_flat([]), _starts(numpy.zeros(0, numpy.int64)), _flat([]), 0, False, 0)
    return EncodedPairs(
        _flat([part.ids for part in parts]),
        _starts(numpy.concatenate([part.lengths for part in parts])),
        _flat([part.seconds for part in parts]),
        parts[0].pad_id,
        parts[0].typed,
        sum(part.truncated for part in parts),
    )


def encode_pairs(
    tokenizer: PreTrainedTokenizerBase, references: Sequence[str], candidates: Sequence[str], max_tokens: int
) -> EncodedPairs:
    """Tokenise pairs; too long a pair loses words from the end of its longer side until it fits."""
    cuts = range(0, len(references), CHUNK_PAIRS)
    return join(
        [_encode(tokenizer, references[i : i + CHUNK_PAIRS], candidates[i : i + CHUNK_PAIRS], max_tokens) for i in cuts]
    )


def _encode(
    tokenizer: PreTrainedTokenizerBase, references: Sequence[str], candidates: Sequence[str], max_tokens: int
) -> EncodedPairs:
    options = {"padding": False, "verbose": False, "return_attention_mask": False}
    got = tokenizer(list(references), list(candidates), truncation="longest_first", max_length=max_tokens, **options)
    rows = got["input_ids"]
    lengths = numpy.array([len(row) for row in rows], dtype=numpy.int64)
    full = numpy.flatnonzero(lengths >= max_tokens).tolist()
    truncated = 0
    if full:
        whole = tokenizer([references[i] for i in full], [candidates[i] for i in full], truncation=False, **options)
        truncated = sum(len(row) > max_tokens for row in whole["input_ids"])
    typed = "token_type_ids" in got
    seconds = _second_segments(tokenizer, got["token_type_ids"]) if typed else lengths.astype(numpy.int32)
    ids = numpy.fromiter((token for row in rows for token in row), numpy.int32, count=int(lengths.sum()))
    return EncodedPairs(ids, _starts(lengths), seconds, tokenizer.pad_token_id or 0, typed, truncated)


def _second_segments(tokenizer: PreTrainedTokenizerBase, types: Sequence[Sequence[int]]) -> NDArray[numpy.int32]:
    """How many 0s stand before the 1s of each row; other segment types than these are a ModelError."""
    seconds = [len(row) - sum(row) for row in types]
    for row, second in zip(types, seconds, strict=True):
        if any(row[:second]) or not all(row[second:]):
            raise ModelError(f"{tokenizer.name_or_path}: segments must be numbered 0, then 1, to be read as pairs.")
    return numpy.array(seconds, dtype=numpy.int32)
