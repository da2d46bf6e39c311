"""An encoder as a masked language model on segments (Devlin et al. 2019, section 3.1), stored as an encoder again.

A share of the tokens is to be predicted: 80% of these become the mask token, 10% a random one, 10% stay. A model whose
folder lacks the layers above the encoder gets fresh ones. They are thrown away at the end.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForMaskedLM, DataCollatorForLanguageModeling

from pipeline.core import runtime
from pipeline.core.batches import pad, token_batches
from pipeline.core.errors import InputError, ModelError
from pipeline.core.models import check_max_tokens, load, load_tokenizer, locate
from pipeline.core.params import AtLeastOne, Between, ModelName, ShareBelowOne, params
from pipeline.core.records import SEGMENTS
from pipeline.core.shards import generator, read_folder
from pipeline.training.runs import finish, note_training, run, state_folder, write_counts, write_training
from pipeline.training.schedule import BatchPlan, Schedule

HEADS = ("cls", "lm_head", "vocab_transform", "vocab_layer_norm", "vocab_projector", "predictions")
"""Names of the layers above the encoder in transformers' masked language models; they may be new."""

NO_TARGET = -100
"""Label of a token that is not to be predicted, as transformers has it."""


@params
class AdaptParams:
    """`masked`: share of the tokens to predict.

    `validation_share` of the segments, `validation_segments` at most, choose the best step; the rest trains.
    """

    encoder: ModelName
    masked: Between
    max_tokens: AtLeastOne
    batch_segments: AtLeastOne
    dropout: ShareBelowOne
    validation_share: Between
    validation_segments: AtLeastOne
    batch_tokens: AtLeastOne
    schedule: Schedule


def adapt(params: AdaptParams, segments: Path, out: Path) -> None:
    """Write the encoder, after its training on `segments`, to `out`, with its tokenizer, training.json, counts.json."""
    source = locate(params.encoder)
    tokenizer = load_tokenizer(source)
    if tokenizer.mask_token is None:
        raise ModelError(f"{params.encoder}: the tokenizer has no mask token.")
    torch.manual_seed(params.schedule.seed)
    dropout = {"hidden_dropout_prob": params.dropout, "attention_probs_dropout_prob": params.dropout}
    model = load(AutoModelForMaskedLM, source, HEADS, **dropout)
    check_max_tokens("adapt.max_tokens", params.max_tokens, model.config, tokenizer)
    texts = read_folder(segments, SEGMENTS).column("text").to_pylist()
    if len(texts) < 2:
        raise InputError("holds fewer than two segments; validation needs one, training another", file=segments)
    rows = tokenizer(texts, truncation=True, max_length=params.max_tokens)["input_ids"]
    order = generator(params.schedule.seed, "adapt").permutation(len(rows)).tolist()
    held = max(1, min(params.validation_segments, round(params.validation_share * len(rows))))
    validation, train = [rows[i] for i in order[:held]], [rows[i] for i in order[held:]]
    plan = BatchPlan([len(row) for row in train], params.batch_segments, params.schedule.seed)
    model.to(runtime.device())

    def loss(model: torch.nn.Module, batch: list[int]) -> torch.Tensor:
        found: torch.Tensor = model(**masked_batch([train[i] for i in batch], tokenizer, params.masked)).loss
        return found

    def evaluate(model: torch.nn.Module) -> float:
        return -validation_loss(model, validation, tokenizer, params)

    state = state_folder("adapt", out.name, [source, segments], params)
    history = run(model, loss, plan.rows, params.schedule, evaluate, state, out)
    if history is None:
        return
    model.cpu().base_model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    write_training(out, history, {"segments": len(train), "segments_validation": held})
    note_training(out, history.seconds)
    write_counts(out, len(rows), {})
    finish(state)


def masked_batch(rows: Sequence[Sequence[int]], tokenizer: Any, share: float, seed: int | None = None) -> Any:
    """Inputs and labels (B, T) of `rows` with `share` of their tokens to predict; special tokens stay.

    Without a `seed` torch's generator draws, which the training loop seeds at every step.
    """
    collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=share)
    if seed is not None:
        collator.generator = torch.Generator().manual_seed(seed)
    ids = pad(rows, tokenizer.pad_token_id)
    special = torch.isin(ids, torch.tensor(tokenizer.all_special_ids))
    mask = pad([[1] * len(row) for row in rows], 0)
    inputs, labels = collator.torch_mask_tokens(ids, special_tokens_mask=special)
    found = {"input_ids": inputs, "attention_mask": mask, "labels": labels}
    return {name: values.to(runtime.device()) for name, values in found.items()}


@torch.inference_mode()
def validation_loss(
    model: torch.nn.Module, rows: Sequence[Sequence[int]], tokenizer: Any, params: AdaptParams
) -> float:
    """Mean cross-entropy, in nats, over the masked tokens of `rows`, which are the same at every call."""
    total, count = 0.0, 0
    for number, batch in enumerate(token_batches([len(row) for row in rows], params.batch_tokens)):
        inputs = masked_batch([rows[i] for i in batch], tokenizer, params.masked, params.schedule.seed + number)
        targets = int((inputs["labels"] != NO_TARGET).sum())
        if targets:
            total += targets * float(model(**inputs).loss)
            count += targets
    return total / count if count else float("nan")
