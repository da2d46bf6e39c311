"""The bundled entailment classifier: the packaged MiniLM on premise and hypothesis, three classes.

Data: SNLI dev (SNLI's own training part is not needed), counterfactually augmented SNLI, and ConjNLI's sentences in
Wikipedia's style. Pairs with a premise of SNLI test are left out: accuracy is measured there.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, BertForSequenceClassification, BertTokenizerFast

from pipeline.bundled import encoder
from pipeline.bundled.texts import CONJNLI, LABELS, Row, read_snli, read_tsv, read_wiki_split
from pipeline.core.batches import pad, token_batches
from pipeline.core.params import AtLeastOne, AtLeastZero, params
from pipeline.core.shards import generator
from pipeline.training.schedule import BatchPlan, Schedule

MODELS = ("entailment",)
INPUTS = ("nli", "wikipedia")

BATCH_TOKENS = 4096
"""Tokens of a batch when scoring, padding included; changes speed only."""

Encoded = tuple[list[int], list[int]]
"""Token ids and segment types of a premise and its hypothesis."""


@params
class Params:
    """`vocabulary` pieces are kept; `conjunction_rows` come from ConjNLI; `validation_rows` choose the best step."""

    vocabulary: AtLeastOne
    max_pieces: AtLeastOne
    batch_rows: AtLeastOne
    conjunction_rows: AtLeastZero
    validation_rows: AtLeastOne
    schedule: Schedule


def make(model: str, params: Params, data: Path, work: Path, out: Path) -> None:
    """Train, or continue, and write `out`."""
    rows = training_rows(data / "nli", params.conjunction_rows, params.schedule.seed)
    texts = [text for row in rows for text in row[:2]] + read_wiki_split(data / "wikipedia")
    names = dict(enumerate(LABELS))
    classifier, tokenizer = encoder.start_model(
        BertForSequenceClassification, texts, params.vocabulary, work / "tokenizer", id2label=names
    )
    held, rows = rows[: params.validation_rows], rows[params.validation_rows :]
    held_encoded, encoded = (encode(tokenizer, part, params.max_pieces) for part in (held, rows))
    plan = BatchPlan([len(ids) for ids, _ in encoded], params.batch_rows, params.schedule.seed)

    def loss(model: torch.nn.Module, batch: list[int]) -> torch.Tensor:
        logits = _logits(model, [encoded[i] for i in batch])
        labels = torch.tensor([rows[i][2] for i in batch], device=logits.device)
        return torch.nn.functional.cross_entropy(logits, labels)

    def evaluate(model: torch.nn.Module) -> float:
        return accuracy(model, held_encoded, [row[2] for row in held])

    print(f"{len(rows):,} pairs", flush=True)
    encoder.train(classifier, tokenizer, loss, plan.rows, params.schedule, evaluate, work / "state.pt", out)


def scores(params: Params, data: Path, models: Path) -> dict[str, Any]:
    """Accuracy of the stored classifier on SNLI test."""
    model = BertForSequenceClassification.from_pretrained(models / "entailment", dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(models / "entailment")
    rows = read_snli(data / "nli" / "snli_1.0_test.jsonl.gz")
    found = accuracy(model, encode(tokenizer, rows, params.max_pieces), [row[2] for row in rows])
    return {"entailment_accuracy_snli_test": round(found, 4)}


def training_rows(folder: Path, conjunction_rows: int, seed: int) -> list[Row]:
    """All training pairs, shuffled, none with a premise of SNLI test."""
    tested = {premise.strip().lower() for premise, _, _ in read_snli(folder / "snli_1.0_test.jsonl.gz")}
    rng = generator(seed, "entailment")
    conjunctions = read_tsv(folder / CONJNLI)
    picked = [conjunctions[i] for i in sorted(rng.permutation(len(conjunctions))[:conjunction_rows])]
    rows = read_snli(folder / "snli_1.0_dev.jsonl.gz") + picked
    for part in ("train", "dev", "test"):
        rows += read_tsv(folder / f"counterfactual.{part}.tsv.gz")
    rows = sorted({row for row in rows if row[0].strip().lower() not in tested})
    return [rows[i] for i in rng.permutation(len(rows))]


def encode(tokenizer: BertTokenizerFast, rows: Sequence[Row], max_pieces: int) -> list[Encoded]:
    """Token ids and segment types of every premise and hypothesis."""
    premises, hypotheses = [row[0] for row in rows], [row[1] for row in rows]
    got = tokenizer(premises, hypotheses, truncation=True, max_length=max_pieces, padding=False)
    return list(zip(got["input_ids"], got["token_type_ids"], strict=True))


def accuracy(model: torch.nn.Module, encoded: Sequence[Encoded], labels: Sequence[int]) -> float:
    """Share of rows, in [0, 1], whose most probable class is the label."""
    right = 0
    with torch.inference_mode():
        for batch in token_batches([len(ids) for ids, _ in encoded], BATCH_TOKENS):
            logits = _logits(model, [encoded[i] for i in batch])
            right += int((logits.argmax(-1).cpu() == torch.tensor([labels[i] for i in batch])).sum())
    return right / len(labels)


def _logits(model: torch.nn.Module, rows: Sequence[Encoded]) -> torch.Tensor:
    device = next(model.parameters()).device
    ids, types = pad([r[0] for r in rows], 0).to(device), pad([r[1] for r in rows], 0).to(device)
    logits: torch.Tensor = model(input_ids=ids, token_type_ids=types, attention_mask=(ids != 0).long()).logits
    return logits
