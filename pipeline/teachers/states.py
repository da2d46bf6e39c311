"""Hidden states of one layer of an encoder, a unit vector for each token of a text, without special tokens."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from pipeline.core.models import locate
from pipeline.core.runtime import device
from pipeline.teachers.encoder import Encoded, Transformer, load_encoder


@dataclass(frozen=True)
class Tokenized:
    """Distinct texts as an encoder reads them: `ids[i]` are those of text i without special tokens."""

    encoder: Transformer
    encoded: Encoded
    ids: list[list[int]]
    kept: list[list[int]]
    """Places of the `ids` among all tokens of the text."""


def tokenize(model: str, layer: int, texts: Sequence[str]) -> Tokenized:
    """Tokens of `texts` for the first `layer` layers of the encoder `model` (see `pipeline.core.models`).

    A ModelError if the encoder cannot be used. A text that is too long for it is cut.
    """
    encoder = load_encoder(locate(model), layer, device())
    if not texts:
        return Tokenized(encoder, {"input_ids": []}, [], [])
    options = {"truncation": True, "max_length": encoder.max_tokens, "return_special_tokens_mask": True}
    encoded = dict(encoder.tokenizer(list(texts), **options).data)
    kept = [[place for place, special in enumerate(mask) if not special] for mask in encoded.pop("special_tokens_mask")]
    ids = [[row[place] for place in places] for row, places in zip(encoded["input_ids"], kept, strict=True)]
    return Tokenized(encoder, encoded, ids, kept)


@torch.inference_mode()
def unit_states(texts: Tokenized, rows: Sequence[int], batch_tokens: int) -> Iterator[tuple[int, torch.Tensor]]:
    """(row, its states (T, D)) for `rows` of `texts`, on the CPU and in no particular order."""
    for chosen, inputs in texts.encoder.batches(texts.encoded, rows, batch_tokens):
        states = torch.nn.functional.normalize(texts.encoder.model(**inputs).last_hidden_state, dim=-1).float().cpu()
        for place, row in enumerate(chosen):
            yield row, states[place, texts.kept[row]]
