"""The bundled entailment classifier at base size: a packaged encoder with adapters, three classes.

Data: that of the small classifier (`pipeline.bundled.recipes.entailment`), with pairs of SNLI test's premises left out.
Stored is only what training changed in the encoder, and the head.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification

from pipeline.bundled.metric import Compact, shrink
from pipeline.bundled.recipes.entailment import training_rows
from pipeline.bundled.texts import LABELS, Row, read_snli
from pipeline.core import runtime
from pipeline.core.batches import pad, token_batches
from pipeline.core.models import load, load_tokenizer, locate
from pipeline.core.params import AtLeastOne, AtLeastZero, ModelName, params
from pipeline.label.signals import entailment
from pipeline.metric.adapter import adapted, merged
from pipeline.training.loop import fit
from pipeline.training.schedule import BatchPlan, Schedule

MODELS = ("entailment-base",)
INPUTS = ("nli",)

BATCH_TOKENS = 4096
"""Tokens of a batch when scoring, padding included; changes speed only."""

Columns = Mapping[str, list[list[int]]]
"""What a tokenizer makes of pairs: `input_ids` and others, each a list of rows without padding."""


@params
class Params:
    """`encoder` learns by adapters of rank `adapter` (null: its weights learn); of what changed, `rank` is stored.

    The others are those of the small classifier.
    """

    encoder: ModelName
    adapter: AtLeastOne | None
    rank: AtLeastOne
    max_pieces: AtLeastOne
    batch_rows: AtLeastOne
    conjunction_rows: AtLeastZero
    validation_rows: AtLeastOne
    schedule: Schedule


def make(model: str, params: Params, data: Path, work: Path, out: Path) -> None:
    """Train, or continue, and write `out`."""
    rows = training_rows(data / "nli", params.conjunction_rows, params.schedule.seed)
    held, rows = rows[: params.validation_rows], rows[params.validation_rows :]
    source = locate(params.encoder)
    tokenizer = load_tokenizer(source)
    torch.manual_seed(params.schedule.seed)
    classifier = load(
        AutoModelForSequenceClassification,
        source,
        ("classifier", "pooler"),
        id2label=dict(enumerate(LABELS)),
        label2id={name: place for place, name in enumerate(LABELS)},
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    adapted(classifier, params.adapter, params.schedule.seed)
    classifier.to(runtime.device())
    held_encoded, encoded = (_encode(tokenizer, part, params.max_pieces) for part in (held, rows))
    plan = BatchPlan([len(ids) for ids in encoded["input_ids"]], params.batch_rows, params.schedule.seed)

    def loss(model: torch.nn.Module, batch: list[int]) -> torch.Tensor:
        logits = _logits(model, encoded, batch, tokenizer.pad_token_id)
        return torch.nn.functional.cross_entropy(logits, _labels(rows, batch).to(logits.device))

    def evaluate(model: torch.nn.Module) -> float:
        right = 0
        with torch.inference_mode(), runtime.autocast(training=True):
            for batch in token_batches([len(ids) for ids in held_encoded["input_ids"]], BATCH_TOKENS):
                logits = _logits(model, held_encoded, batch, tokenizer.pad_token_id)
                right += int((logits.argmax(-1).cpu() == _labels(held, batch)).sum())
        return right / len(held)

    def log(step: int, point: dict[str, float]) -> None:
        print(step, point, flush=True)

    print(f"{len(rows):,} pairs", flush=True)
    history = fit(classifier, loss, plan.rows, params.schedule, work / "state.pt", evaluate=evaluate, log=log)
    print(f"best validation {history.best_score:.4f} at step {history.best_step}", flush=True)
    merged(classifier)
    classifier.cpu().save_pretrained(out)
    tokenizer.save_pretrained(out)
    shrink(out, Compact(params.encoder, params.rank), f"{classifier.base_model_prefix}.")


def scores(params: Params, data: Path, models: Path) -> dict[str, Any]:
    """Accuracy of the stored classifier on SNLI test."""
    rows = read_snli(data / "nli" / "snli_1.0_test.jsonl.gz")
    settings = entailment.Params(model=str(models / MODELS[0]), batch_tokens=BATCH_TOKENS)
    found = entailment.entailment([row[0] for row in rows], [row[1] for row in rows], settings)
    places = [entailment.LABELS.index(LABELS[row[2]]) for row in rows]
    right = sum(int(row.argmax()) == place for row, place in zip(found, places, strict=True))
    return {"entailment_base_accuracy_snli_test": round(right / len(rows), 4)}


def _encode(tokenizer: Any, rows: Sequence[Row], max_pieces: int) -> Columns:
    premises, hypotheses = [row[0] for row in rows], [row[1] for row in rows]
    columns: Columns = tokenizer(premises, hypotheses, truncation=True, max_length=max_pieces, padding=False).data
    return columns


def _labels(rows: Sequence[Row], batch: Sequence[int]) -> torch.Tensor:
    return torch.tensor([rows[i][2] for i in batch])


def _logits(model: torch.nn.Module, encoded: Columns, batch: Sequence[int], pad_id: int) -> torch.Tensor:
    device = next(model.parameters()).device
    inputs = {
        name: pad([column[i] for i in batch], pad_id if name == "input_ids" else 0).to(device)
        for name, column in encoded.items()
    }
    logits: torch.Tensor = model(**inputs).logits
    return logits
