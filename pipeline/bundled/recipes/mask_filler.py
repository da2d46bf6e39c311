"""The bundled mask filler: the packaged MiniLM with a masked-language-model head, on Wikipedia sentences.

Every batch masks a random share of its word pieces, 10 to 50%: the perturbation masks up to 15 words of a sentence, so
the filler must cope with little context (BERT's fixed 15% would not teach that). 80% of the chosen pieces become
[MASK], 10% a random piece, 10% stay (Devlin et al. 2019). The output layer runs only on chosen positions.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from pydantic import model_validator
from transformers import BertForMaskedLM

from pipeline.bundled import encoder
from pipeline.bundled.encoder import SPECIAL
from pipeline.bundled.texts import read_wikitext, wikipedia_texts
from pipeline.core.batches import pad, token_batches
from pipeline.core.deltas import round_weights
from pipeline.core.models import load, load_tokenizer, locate
from pipeline.core.params import AtLeastOne, Share, params
from pipeline.core.shards import generator
from pipeline.training.schedule import BatchPlan, Schedule

MODELS = ("mask-filler",)
INPUTS = ("nli", "wikipedia")

VALIDATION = Path("wikipedia", "wikitext-2-raw.valid.txt.gz")
"""A file inside the data: a quarter of it chooses the best step, and all of it gives the score."""

MASKED = 0.15
"""Share of the pieces that the score masks."""

BATCH_TOKENS = 4096
"""Tokens of a batch when scoring, padding included; changes speed only."""


@params
class Params:
    """`vocabulary` pieces are kept; each batch masks a share drawn from [least_masked, most_masked]."""

    vocabulary: AtLeastOne
    max_pieces: AtLeastOne
    batch_rows: AtLeastOne
    least_masked: Share
    most_masked: Share
    schedule: Schedule

    @model_validator(mode="after")
    def _in_order(self) -> "Params":
        if self.least_masked > self.most_masked:
            raise ValueError(f"least_masked: must be at most most_masked, not {self.least_masked}")
        return self


def make(model: str, params: Params, data: Path, work: Path, out: Path) -> None:
    """Train, or continue, and write `out`."""
    texts = wikipedia_texts(data, work / "segments")
    filler, tokenizer = encoder.start_model(
        BertForMaskedLM,
        texts,
        params.vocabulary,
        work / "tokenizer",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    with torch.no_grad():
        filler.cls.predictions.transform.dense.weight.copy_(torch.eye(filler.config.hidden_size))
    encode = {"truncation": True, "max_length": params.max_pieces, "padding": False}
    rows = tokenizer(texts, **encode)["input_ids"]
    held = tokenizer(read_wikitext(data / VALIDATION), **encode)["input_ids"]
    plan = BatchPlan([len(r) for r in rows], params.batch_rows, params.schedule.seed)

    def loss(model: torch.nn.Module, batch: list[int]) -> torch.Tensor:
        ids = pad([rows[i] for i in batch], 0)
        draw = torch.Generator().manual_seed(int(torch.initial_seed()) % 2**31)
        shares = generator(params.schedule.seed, "share", *batch[:4])
        share = float(shares.uniform(params.least_masked, params.most_masked))
        masked, chosen = choose_masks(ids, len(SPECIAL), share, SPECIAL.index("[MASK]"), len(tokenizer), draw)
        assert isinstance(model, BertForMaskedLM)
        logits = masked_logits(model, masked, chosen)
        return torch.nn.functional.cross_entropy(logits.float(), ids[chosen].to(logits.device))

    def evaluate(model: torch.nn.Module) -> float:
        assert isinstance(model, BertForMaskedLM)
        return top1(model, held[::4], MASKED, 1)

    print(f"{len(rows):,} texts", flush=True)
    encoder.train(filler, tokenizer, loss, plan.rows, params.schedule, evaluate, work / "state.pt", out)
    round_weights(out)


def scores(params: Params, data: Path, models: Path) -> dict[str, Any]:
    """Top-1 accuracy of the stored mask filler on WikiText-2 valid."""
    folder = locate(str(models / MODELS[0]))
    model, tokenizer = load(BertForMaskedLM, folder), load_tokenizer(folder)
    rows = tokenizer(read_wikitext(data / VALIDATION), truncation=True, max_length=params.max_pieces)["input_ids"]
    return {"mask_filler_top1_wikitext2_valid": round(top1(model, rows, MASKED, 0), 4)}


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
    """Logits (chosen positions, vocabulary): the encoder over all of `ids` (B, T), the head only at `chosen`."""
    ids, chosen = ids.to(model.device), chosen.to(model.device)
    hidden = model.bert(input_ids=ids, attention_mask=(ids != 0).long()).last_hidden_state
    logits: torch.Tensor = model.cls(hidden[chosen])
    return logits


def top1(model: BertForMaskedLM, rows: Sequence[list[int]], share: float, seed: int) -> float:
    """Share of masked pieces, in [0, 1], whose most probable filling is the original; `share` become [MASK]."""
    draw = torch.Generator().manual_seed(seed)
    specials, mask_id = len(SPECIAL), SPECIAL.index("[MASK]")
    right = total = 0
    with torch.inference_mode():
        for batch in token_batches([len(r) for r in rows], BATCH_TOKENS):
            ids = pad([rows[i] for i in batch], 0)
            chosen = (torch.rand(ids.shape, generator=draw) < share) & (ids >= specials)
            found = masked_logits(model, torch.where(chosen, mask_id, ids), chosen).argmax(-1).cpu()
            right += int((found == ids[chosen]).sum())
            total += int(chosen.sum())
    return right / max(total, 1)
