"""Sentence pairs as the encoder reads them: [CLS] reference [SEP] candidate [SEP] (paper, section 3)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedTokenizerBase

from pipeline.training.batching import pad


@dataclass(frozen=True)
class EncodedPairs:
    """Token ids and segment types of every pair; `truncated` counts pairs that were longer than `max_tokens`."""

    ids: list[list[int]]
    types: list[list[int]]
    pad_id: int
    typed: bool
    truncated: int

    @property
    def lengths(self) -> list[int]:
        """Tokens of every pair, special tokens included."""
        return [len(row) for row in self.ids]

    def batch(self, rows: Sequence[int], device: str) -> dict[str, torch.Tensor]:
        """Model inputs of `rows`, padded to the longest of them: tensors (rows, longest)."""
        ids = pad([self.ids[i] for i in rows], self.pad_id)
        lengths = torch.tensor([len(self.ids[i]) for i in rows])
        mask = (torch.arange(ids.shape[1])[None, :] < lengths[:, None]).long()
        inputs = {"input_ids": ids, "attention_mask": mask}
        if self.typed:
            inputs["token_type_ids"] = pad([self.types[i] for i in rows], 0)
        return {name: tensor.to(device) for name, tensor in inputs.items()}


def encode_pairs(
    tokenizer: PreTrainedTokenizerBase, references: Sequence[str], candidates: Sequence[str], max_tokens: int
) -> EncodedPairs:
    """Tokenise pairs; too long a pair loses words from the end of its longer side until it fits."""
    if not references:
        return EncodedPairs([], [], 0, False, 0)
    options = {"padding": False, "verbose": False, "return_attention_mask": False}
    got = tokenizer(list(references), list(candidates), truncation="longest_first", max_length=max_tokens, **options)
    ids = got["input_ids"]
    full = [i for i, row in enumerate(ids) if len(row) >= max_tokens]
    truncated = 0
    if full:
        whole = tokenizer([references[i] for i in full], [candidates[i] for i in full], truncation=False, **options)
        truncated = sum(len(row) > max_tokens for row in whole["input_ids"])
    typed = "token_type_ids" in got
    types = got["token_type_ids"] if typed else []
    return EncodedPairs(ids, types, tokenizer.pad_token_id or 0, typed, truncated)
