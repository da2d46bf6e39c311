"""Trains the bundled mask filler: the packaged MiniLM with a masked-language-model head, on Wikipedia sentences.

Every batch masks a random share of its word pieces, 10 to 50%: the perturbation masks up to 15 words of a sentence,
so the filler must cope with little context (BERT's fixed 15% would not teach that). 80% of the chosen pieces become
[MASK], 10% a random piece, 10% stay (Devlin et al. 2019). The output layer runs on chosen positions alone.

    python -m pipeline.bundled.mask_filler --data DATA --work W --out models/bundled/mask-filler
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import BertForMaskedLM

from pipeline.bundled import encoder
from pipeline.bundled.entailment import read_tsv
from pipeline.bundled.trim import SPECIAL
from pipeline.bundled.wikipedia import DUMP, read_dump, read_wiki_split, read_wikitext, sentences_of
from pipeline.core.batches import pad, token_batches
from pipeline.core.seeds import generator
from pipeline.training.schedule import BatchPlan, Schedule


@dataclass(frozen=True)
class MaskFillerRecipe:
    """`vocabulary` pieces are kept; masks cover a share drawn from [least_masked, most_masked] for each batch."""

    vocabulary: int
    max_pieces: int
    batch_rows: int
    least_masked: float
    most_masked: float
    schedule: Schedule


def training_text(data: Path, work: Path) -> list[str]:
    """Sentences of WikiSplit, WikiText-2's test part (as paragraphs too), the dump and ConjNLI's premises, each once.

    WikiText-2's valid part is left out: it is for the score. The dump's segments are kept in `work`.
    """
    folder = data / "wikipedia"
    paragraphs = read_wikitext(folder / "wikitext-2-raw.test.txt.gz")
    texts = {*paragraphs, *sentences_of(paragraphs, 6), *read_wiki_split(folder), *read_dump(folder / DUMP, work)}
    rows = read_tsv(data / "nli" / "conjnli.adversarial_train_15k.tsv.gz")
    return sorted(texts.union(premise for premise, _, _ in rows))


def choose_masks(
    ids: torch.Tensor, specials: int, share: float, mask_id: int, vocabulary: int, draw: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Masked copy of `ids` (B, T) and the boolean (B, T) of positions to predict; ids below `specials` stay."""
    chosen = (torch.rand(ids.shape, generator=draw) < share) & (ids >= specials)
    dice = torch.rand(ids.shape, generator=draw)
    anything = torch.randint(specials, vocabulary, ids.shape, generator=draw)
    masked = torch.where(chosen & (dice < 0.8), mask_id, ids)
    return torch.where(chosen & (dice >= 0.9), anything, masked), chosen


def masked_logits(model: BertForMaskedLM, ids: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    """Logits (chosen positions, vocabulary): the encoder over all of `ids` (B, T), the head where `chosen`."""
    ids, chosen = ids.to(model.device), chosen.to(model.device)
    hidden = model.bert(input_ids=ids, attention_mask=(ids != 0).long()).last_hidden_state
    logits: torch.Tensor = model.cls(hidden[chosen])
    return logits


def top1(model: BertForMaskedLM, rows: Sequence[list[int]], share: float, seed: int) -> float:
    """Share of masked pieces whose most probable filling is the original: `share` of the pieces become [MASK]."""
    draw = torch.Generator().manual_seed(seed)
    specials, mask_id = len(SPECIAL), SPECIAL.index("[MASK]")
    right = total = 0
    with torch.inference_mode():
        for batch in token_batches([len(r) for r in rows], 4096):
            ids = pad([rows[i] for i in batch], 0)
            chosen = (torch.rand(ids.shape, generator=draw) < share) & (ids >= specials)
            found = masked_logits(model, torch.where(chosen, mask_id, ids), chosen).argmax(-1).cpu()
            right += int((found == ids[chosen]).sum())
            total += int(chosen.sum())
    return right / max(total, 1)


def train(recipe: MaskFillerRecipe, data: Path, work: Path, out: Path) -> None:
    """Train, or continue, and write `out`."""
    texts = training_text(data, work / "segments")
    model, tokenizer = encoder.start_model(
        BertForMaskedLM,
        texts,
        recipe.vocabulary,
        work / "tokenizer",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    with torch.no_grad():
        model.cls.predictions.transform.dense.weight.copy_(torch.eye(model.config.hidden_size))
    encode = {"truncation": True, "max_length": recipe.max_pieces, "padding": False}
    rows = tokenizer(texts, **encode)["input_ids"]
    held = tokenizer(read_wikitext(data / "wikipedia" / "wikitext-2-raw.valid.txt.gz"), **encode)["input_ids"]
    plan = BatchPlan([len(r) for r in rows], recipe.batch_rows, recipe.schedule.seed)

    def loss(model: torch.nn.Module, batch: list[int]) -> torch.Tensor:
        ids = pad([rows[i] for i in batch], 0)
        draw = torch.Generator().manual_seed(int(torch.initial_seed()) % 2**31)
        share = float(
            generator(recipe.schedule.seed, "share", *batch[:4]).uniform(recipe.least_masked, recipe.most_masked)
        )
        masked, chosen = choose_masks(ids, len(SPECIAL), share, SPECIAL.index("[MASK]"), len(tokenizer), draw)
        assert isinstance(model, BertForMaskedLM)
        logits = masked_logits(model, masked, chosen)
        return torch.nn.functional.cross_entropy(logits.float(), ids[chosen].to(logits.device))

    def evaluate(model: torch.nn.Module) -> float:
        assert isinstance(model, BertForMaskedLM)
        return top1(model, held[::4], 0.15, 1)

    print(f"{len(rows):,} texts", flush=True)
    encoder.train(model, tokenizer, loss, plan.rows, recipe.schedule, evaluate, work / "state.pt", out)


RECIPE = MaskFillerRecipe(
    vocabulary=10_000,
    max_pieces=96,
    batch_rows=32,
    least_masked=0.1,
    most_masked=0.5,
    schedule=Schedule(
        steps=4000,
        learning_rate=5e-4,
        layer_decay=1.0,
        weight_decay=0.01,
        warmup_share=0.05,
        clip_norm=1.0,
        evaluate_every=500,
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
