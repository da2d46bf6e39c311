"""A transformer from a local folder, run without gradients over padded batches of rows of similar length."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import AutoModel, AutoModelForSequenceClassification

from pipeline.core.batches import pad, token_batches
from pipeline.core.errors import ModelError
from pipeline.core.kernels import CPU_TOKENS, packed
from pipeline.core.models import load, load_config, load_tokenizer, usable_tokens

Encoded = Mapping[str, list[list[int]]]
"""What a tokenizer makes of texts: `input_ids` and others, each a list of token rows without padding."""


@dataclass(frozen=True)
class Transformer:
    """A model in evaluation mode on `device`, its tokenizer, and the longest input that both take, in tokens."""

    tokenizer: Any
    model: Any
    device: str
    max_tokens: int

    def tokenize(self, *texts: Sequence[str]) -> Encoded:
        """Token rows, with special tokens, of texts or of pairs of texts; the longer side is cut at `max_tokens`."""
        columns = [list(side) for side in texts]
        encoded: Encoded = self.tokenizer(*columns, truncation=True, max_length=self.max_tokens).data
        return encoded

    def batches(self, encoded: Encoded, rows: Sequence[int], batch_tokens: int) -> Iterator[tuple[list[int], Any]]:
        """Row numbers and padded inputs (B, T) on the device, for `rows` of `encoded`, longest rows first.

        B x T is at most `batch_tokens`, and on a CPU at most CPU_TOKENS; a longer row is a batch by itself.
        """
        if self.device == "cpu":
            batch_tokens = min(batch_tokens, CPU_TOKENS)
        for places in token_batches([len(encoded["input_ids"][row]) for row in rows], batch_tokens):
            chosen = [rows[place] for place in places]
            inputs = {}
            for name, column in encoded.items():
                filler = self.tokenizer.pad_token_id if name == "input_ids" else 0
                inputs[name] = pad([column[row] for row in chosen], filler).to(self.device)
            yield chosen, inputs


@functools.lru_cache(maxsize=2)
def load_encoder(folder: Path, layer: int, device: str) -> Transformer:
    """The encoder in `folder` with only its first `layer` layers (0: only the embeddings).

    A layer that the model lacks is a ModelError.
    """
    layers = load_config(folder).num_hidden_layers
    if not 0 <= layer <= layers:
        raise ModelError(f"{folder}: has layers 0 to {layers}, so layer {layer} cannot be used.")
    return _load(folder, AutoModel, device, num_hidden_layers=layer)


@functools.lru_cache(maxsize=2)
def load_classifier(folder: Path, device: str) -> Transformer:
    """The classifier of texts, or of pairs of texts, in `folder`."""
    return _load(folder, AutoModelForSequenceClassification, device)


def _load(folder: Path, kind: Any, device: str, **settings: int) -> Transformer:
    model, tokenizer = load(kind, folder, ("pooler",), **settings), load_tokenizer(folder)
    longest = usable_tokens(model.config, tokenizer)
    return Transformer(tokenizer, packed(model.to(device)), device, longest)
