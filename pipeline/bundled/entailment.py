"""Trains the bundled entailment classifier: the packaged MiniLM on premise and hypothesis, three classes.

Data: SNLI dev (SNLI's own training part is not needed), counterfactually augmented SNLI, and ConjNLI's sentences in
Wikipedia's style. Every pair whose premise stands in SNLI test is left out, because that is where accuracy is measured.

    python -m pipeline.bundled.entailment --data DATA --work W --out models/bundled/entailment
"""

import argparse
import csv
import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import BertForSequenceClassification, BertTokenizerFast

from pipeline.bundled import encoder
from pipeline.bundled.wikipedia import read_wiki_split
from pipeline.core.batches import pad, token_batches
from pipeline.core.seeds import generator
from pipeline.training.schedule import BatchPlan, Schedule

LABELS = ("entailment", "neutral", "contradiction")

Row = tuple[str, str, int]
"""Premise, hypothesis, position in LABELS."""


@dataclass(frozen=True)
class EntailmentRecipe:
    """`vocabulary` pieces are kept; `conjunction_rows` are taken of ConjNLI; `validation_rows` choose the best."""

    vocabulary: int
    max_pieces: int
    batch_rows: int
    conjunction_rows: int
    validation_rows: int
    schedule: Schedule


def read_snli(file: Path) -> list[Row]:
    """Rows of an SNLI file that have a gold label."""
    rows = []
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            item = json.loads(line)
            if item["gold_label"] in LABELS:
                rows.append((item["sentence1"], item["sentence2"], LABELS.index(item["gold_label"])))
    return rows


def read_tsv(file: Path) -> list[Row]:
    """Rows of a three-column TSV with a header: premise, hypothesis, label."""
    with gzip.open(file, "rt", encoding="utf-8-sig", newline="") as lines:
        rows = list(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    return [(row[0], row[1], LABELS.index(row[2])) for row in rows if len(row) == 3 and row[2] in LABELS]


def training_rows(folder: Path, conjunction_rows: int, seed: int) -> list[Row]:
    """All training pairs, shuffled, none with a premise of SNLI test."""
    tested = {premise.strip().lower() for premise, _, _ in read_snli(folder / "snli_1.0_test.jsonl.gz")}
    rng = generator(seed, "entailment")
    conjunctions = read_tsv(folder / "conjnli.adversarial_train_15k.tsv.gz")
    picked = [conjunctions[i] for i in sorted(rng.permutation(len(conjunctions))[:conjunction_rows])]
    rows = read_snli(folder / "snli_1.0_dev.jsonl.gz") + picked
    for part in ("train", "dev", "test"):
        rows += read_tsv(folder / f"counterfactual.{part}.tsv.gz")
    rows = sorted({row for row in rows if row[0].strip().lower() not in tested})
    return [rows[i] for i in rng.permutation(len(rows))]


def accuracy(model: torch.nn.Module, encoded: Sequence[tuple[list[int], list[int]]], labels: Sequence[int]) -> float:
    """Share of rows whose most probable class is the label."""
    right = 0
    with torch.inference_mode():
        for batch in token_batches([len(ids) for ids, _ in encoded], 4096):
            logits = _logits(model, [encoded[i] for i in batch])
            right += int((logits.argmax(-1).cpu() == torch.tensor([labels[i] for i in batch])).sum())
    return right / len(labels)


def encode(tokenizer: BertTokenizerFast, rows: Sequence[Row], max_pieces: int) -> list[tuple[list[int], list[int]]]:
    """Token ids and segment types of every premise and hypothesis."""
    premises, hypotheses = [row[0] for row in rows], [row[1] for row in rows]
    got = tokenizer(premises, hypotheses, truncation=True, max_length=max_pieces, padding=False)
    return list(zip(got["input_ids"], got["token_type_ids"], strict=True))


def _logits(model: torch.nn.Module, rows: Sequence[tuple[list[int], list[int]]]) -> torch.Tensor:
    device = next(model.parameters()).device
    ids, types = pad([r[0] for r in rows], 0).to(device), pad([r[1] for r in rows], 0).to(device)
    logits: torch.Tensor = model(input_ids=ids, token_type_ids=types, attention_mask=(ids != 0).long()).logits
    return logits


def train(recipe: EntailmentRecipe, data: Path, work: Path, out: Path) -> None:
    """Train, or continue, and write `out`."""
    rows = training_rows(data / "nli", recipe.conjunction_rows, recipe.schedule.seed)
    texts = [text for row in rows for text in row[:2]] + read_wiki_split(data / "wikipedia")
    names = dict(enumerate(LABELS))
    model, tokenizer = encoder.start_model(
        BertForSequenceClassification, texts, recipe.vocabulary, work / "tokenizer", id2label=names
    )
    held, rows = rows[: recipe.validation_rows], rows[recipe.validation_rows :]
    held_encoded, encoded = (encode(tokenizer, part, recipe.max_pieces) for part in (held, rows))
    plan = BatchPlan([len(ids) for ids, _ in encoded], recipe.batch_rows, recipe.schedule.seed)

    def loss(model: torch.nn.Module, batch: list[int]) -> torch.Tensor:
        logits = _logits(model, [encoded[i] for i in batch])
        labels = torch.tensor([rows[i][2] for i in batch], device=logits.device)
        return torch.nn.functional.cross_entropy(logits, labels)

    def evaluate(model: torch.nn.Module) -> float:
        return accuracy(model, held_encoded, [row[2] for row in held])

    print(f"{len(rows):,} pairs", flush=True)
    encoder.train(model, tokenizer, loss, plan.rows, recipe.schedule, evaluate, work / "state.pt", out)


RECIPE = EntailmentRecipe(
    vocabulary=6000,
    max_pieces=96,
    batch_rows=32,
    conjunction_rows=5000,
    validation_rows=800,
    schedule=Schedule(
        steps=1400,
        learning_rate=1.5e-4,
        layer_decay=1.0,
        weight_decay=0.01,
        warmup_share=0.06,
        clip_norm=1.0,
        evaluate_every=350,
        save_every=100,
        seed=1,
    ),
)

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("data", "work", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    arguments = parser.parse_args()
    train(RECIPE, arguments.data, arguments.work, arguments.out)
