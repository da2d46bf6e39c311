"""Scores of a trained checkpoint for many pairs: batches of similar length under a token budget."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy
import torch
from transformers import PreTrainedModel

from pipeline.core import runtime
from pipeline.core.batches import token_batches
from pipeline.core.models import check_max_tokens, load_tokenizer
from pipeline.metric.checkpoint import head_of, load_metric
from pipeline.metric.pairs import EncodedPairs, encode_pairs


def outputs(model: torch.nn.Module, pairs: EncodedPairs, batch_tokens: int) -> numpy.ndarray:
    """The model's outputs for every pair: float32 (pairs, outputs), in the order of `pairs`."""
    return _gathered(model, pairs, batch_tokens, lambda logits: logits)


def head_inputs(model: PreTrainedModel, pairs: EncodedPairs, batch_tokens: int) -> numpy.ndarray:
    """What the last layer reads for every pair: float32 (pairs, features), in the order of `pairs`."""
    read: list[torch.Tensor] = []
    hook = head_of(model).register_forward_pre_hook(lambda _, given: read.append(given[0]))
    try:
        return _gathered(model, pairs, batch_tokens, lambda _: read.pop())
    finally:
        hook.remove()


def _gathered(
    model: torch.nn.Module, pairs: EncodedPairs, batch_tokens: int, value: Callable[[torch.Tensor], torch.Tensor]
) -> numpy.ndarray:
    """`value` of each batch's outputs, a row for each pair."""
    device = next(model.parameters()).device
    found: numpy.ndarray | None = None
    with torch.inference_mode(), runtime.autocast():
        for rows in token_batches(pairs.lengths.tolist(), batch_tokens):
            values = value(model(**pairs.batch(rows, str(device))).logits).float().cpu().numpy()
            if found is None:
                found = numpy.zeros((len(pairs), values.shape[1]), dtype=numpy.float32)
            found[rows] = values
    return numpy.zeros((0, 1), dtype=numpy.float32) if found is None else found


def predict(
    folder: Path, references: Sequence[str], candidates: Sequence[str], max_tokens: int, batch_tokens: int
) -> numpy.ndarray:
    """Scores of the fine-tuned checkpoint in `folder`: float32 (pairs, outputs); higher is better."""
    model, tokenizer = load_metric(folder), load_tokenizer(folder)
    check_max_tokens("evaluate.max_tokens", max_tokens, model.config, tokenizer)
    return outputs(model, encode_pairs(tokenizer, references, candidates, max_tokens), batch_tokens)
