"""The bundled language model: the lowest layers of the packaged MiniLM read from left to right, on Wikipedia sentences.

A causal model for perplexity and GPTScore. It predicts every next piece of `[CLS] sentence [SEP]`, so `[CLS]` is its
start token and `[SEP]` its end token. The encoder's layers were trained to look both ways; with a causal mask they are
a better start than random weights all the same, and the embeddings of words are worth more than the layers.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import BertLMHeadModel

from pipeline.bundled import encoder
from pipeline.bundled.encoder import SPECIAL
from pipeline.bundled.texts import read_wikitext, sentences_of, wikipedia_texts
from pipeline.core.batches import pad, token_batches
from pipeline.core.params import AtLeastOne, params
from pipeline.teachers.language_model import load_language_model
from pipeline.training.schedule import BatchPlan, Schedule

MODELS = ("language-model",)
INPUTS = ("nli", "wikipedia")

VALIDATION = Path("wikipedia", "wikitext-2-raw.valid.txt.gz")
"""A file inside the data: a quarter of its sentences chooses the best step, and all of them give the score."""

LEAST_WORDS = 4
"""Sentences of the validation text have more words than that."""

BATCH_TOKENS = 4096
"""Tokens of a batch when scoring, padding included; changes speed only."""


@params
class Params:
    """`vocabulary` pieces and the lowest `layers` of the encoder are kept; `max_pieces` of a text are read."""

    vocabulary: AtLeastOne
    layers: AtLeastOne
    max_pieces: AtLeastOne
    batch_rows: AtLeastOne
    schedule: Schedule


def make(model: str, params: Params, data: Path, work: Path, out: Path) -> None:
    """Train, or continue, and write `out`."""
    texts = wikipedia_texts(data, work / "segments")
    causal, tokenizer = encoder.start_model(
        BertLMHeadModel,
        texts,
        params.vocabulary,
        work / "tokenizer",
        is_decoder=True,
        num_hidden_layers=params.layers,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    with torch.no_grad():
        causal.cls.predictions.transform.dense.weight.copy_(torch.eye(causal.config.hidden_size))
    tokenizer.bos_token, tokenizer.eos_token = "[CLS]", "[SEP]"
    causal.config.bos_token_id, causal.config.eos_token_id = tokenizer.bos_token_id, tokenizer.eos_token_id
    encode = {"truncation": True, "max_length": params.max_pieces, "padding": False}
    rows = tokenizer(texts, **encode)["input_ids"]
    held = tokenizer(validation_texts(data)[::4], **encode)["input_ids"]
    plan = BatchPlan([len(r) for r in rows], params.batch_rows, params.schedule.seed)

    def loss(model: torch.nn.Module, batch: list[int]) -> torch.Tensor:
        return next_piece_loss(model, [rows[i] for i in batch]).mean()

    def evaluate(model: torch.nn.Module) -> float:
        return -perplexity(model, held)

    print(f"{len(rows):,} texts, {causal.num_parameters():,} parameters", flush=True)
    encoder.train(causal, tokenizer, loss, plan.rows, params.schedule, evaluate, work / "state.pt", out)


def scores(params: Params, data: Path, models: Path) -> dict[str, Any]:
    """Perplexity and bits a character of the stored model on the sentences of WikiText-2 valid, as the metrics read."""
    texts = validation_texts(data)
    found = load_language_model(str(models / "language-model")).log_likelihood(texts, BATCH_TOKENS)
    nats, pieces = -float(found.log_probability.sum()), int(found.tokens.sum())
    characters = sum(map(len, texts))
    return {
        "language_model_wikitext2_valid": {
            "perplexity": round(math.exp(nats / pieces), 2),
            "bits_a_character": round(nats / math.log(2) / characters, 4),
            "sentences": len(texts),
            "pieces": pieces,
            "characters": characters,
        }
    }


def validation_texts(data: Path) -> list[str]:
    """The sentences of WikiText-2 valid."""
    return sentences_of(read_wikitext(data / VALIDATION), LEAST_WORDS)


def next_piece_loss(model: torch.nn.Module, rows: Sequence[Sequence[int]]) -> torch.Tensor:
    """Negative log likelihood, in nats, of every piece of `rows` but each first: (all of them,)."""
    assert isinstance(model, BertLMHeadModel)
    ids = pad(rows, SPECIAL.index("[PAD]")).to(model.device)
    real = pad([[1] * len(row) for row in rows], 0).to(model.device)
    hidden = model.bert(input_ids=ids, attention_mask=real, use_cache=False).last_hidden_state[:, :-1]
    kept = real[:, 1:].bool()
    logits = model.cls(hidden[kept]).float()
    return torch.nn.functional.cross_entropy(logits, ids[:, 1:][kept], reduction="none")


@torch.inference_mode()
def perplexity(model: torch.nn.Module, rows: Sequence[Sequence[int]]) -> float:
    """exp of the mean negative log likelihood of the pieces of `rows`."""
    batches = token_batches([len(row) for row in rows], BATCH_TOKENS)
    nats = torch.cat([next_piece_loss(model, [rows[i] for i in batch]).cpu() for batch in batches])
    return float(nats.double().mean().exp())
