"""A tiny metric with random weights, which reads 64 tokens, and a scorer of it."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tiny_filler import save_tiny_filler

from pipeline.core.models import load_tokenizer
from pipeline.metric.checkpoint import Head, head_of, new_metric, save_metric
from pipeline.scoring.scorer import BleurtScorer

REFERENCES = ["the cat sat on the mat.", "a dog ran.", "the small red house", "the bird sat", "paris"]
CANDIDATES = ["the cat sat.", "the dog ran", "the small house was red", "the bird sat", "the bird sat on the red mat"]


@pytest.fixture(scope="session")
def new_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A function that makes a checkpoint: new_checkpoint("adequacy", head=Head.CLS)."""
    folders = (tmp_path_factory.mktemp("scoring") / str(number) for number in itertools.count())
    encoder = save_tiny_filler(tmp_path_factory.mktemp("encoder"))

    def make(*outputs: str, head: Head = Head.ALIGNMENT) -> Path:
        folder = next(folders)
        model = new_metric(str(encoder), head, outputs, dropout=0.1, seed=3)
        torch.nn.init.normal_(head_of(model).weight, std=0.2, generator=torch.Generator().manual_seed(5))
        save_metric(model, load_tokenizer(encoder), folder)
        return folder

    return make


@pytest.fixture(scope="session")
def checkpoint(new_checkpoint: Callable[..., Path]) -> Path:
    """A checkpoint with the one output "adequacy", which no test changes."""
    return new_checkpoint("adequacy")


@pytest.fixture(scope="session")
def scorer(checkpoint: Path) -> BleurtScorer:
    """A scorer of `checkpoint` with all defaults."""
    return BleurtScorer(checkpoint, device="cpu")


@pytest.fixture(scope="session")
def references() -> list[str]:
    """Five references."""
    return REFERENCES


@pytest.fixture(scope="session")
def candidates() -> list[str]:
    """A candidate for each of `references`; the fourth equals its reference."""
    return CANDIDATES
