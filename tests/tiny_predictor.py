"""A tiny predictor with random weights and the tokenizer of the tiny BERT, for tests."""

from pathlib import Path

import torch
from tiny_filler import save_tiny_filler

from pipeline.core.models import load_tokenizer
from pipeline.metric.predictor import Predictor, PredictorConfig


def save_tiny_predictor(folder: Path, seed: int = 0) -> Path:
    """Write a predictor of width 6 beside its tokenizer."""
    tokenizer = load_tokenizer(save_tiny_filler(folder / "filler"))
    torch.manual_seed(seed)
    config = PredictorConfig(
        len(tokenizer),
        6,
        tokenizer.cls_token_id,
        estimator_width=4,
        hidden_dropout_prob=0.0,
        max_position_embeddings=64,
    )
    Predictor(config).eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
