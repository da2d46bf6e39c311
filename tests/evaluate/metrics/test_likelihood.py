"""Likelihoods under a translator, against transformers' own loss."""

from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from tiny_marian import save_tiny_marian
from transformers import MarianMTModel, MarianTokenizer

from pipeline.evaluate.metrics import Texts, known_metrics
from pipeline.evaluate.metrics.likelihood import Params

REFERENCES = ("the cat sat on the mat.", "a dog ran to the red house.", "who wrote it?")
CANDIDATES = ("a cat sat on the mat.", "seven birds sing.", "")
SOURCES = ("le chat dort.", "der Hund", "who?")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_marian(tmp_path_factory.mktemp("marian"))


def log_likelihoods(folder: Path, lefts: tuple[str, ...], targets: tuple[str, ...]) -> list[float]:
    tokenizer: Any = MarianTokenizer.from_pretrained(folder)
    marian: Any = MarianMTModel.from_pretrained(folder).eval()
    found = []
    for left, target in zip(lefts, targets, strict=True):
        batch = tokenizer(left, text_target=target, return_tensors="pt")
        with torch.inference_mode():
            logits = marian(**batch).logits[0]
        logits = logits.clone()
        logits[:, marian.config.pad_token_id] = -torch.inf  # the padding is no word
        labels = batch["labels"][0]
        found.append(float(logits.log_softmax(-1)[torch.arange(len(labels)), labels].mean()))
    return found


def test_both_directions_are_those_of_transformers(model: Path) -> None:
    texts = Texts(tuple((text,) for text in REFERENCES), SOURCES, CANDIDATES)
    found = {
        name: known_metrics()[name].score(texts, Params(str(model), "en", 2), 0)
        for name in ("likelihood", "likelihood_candidate", "likelihood_reference", "likelihood_source")
    }
    forward = log_likelihoods(model, REFERENCES, CANDIDATES)
    backward = log_likelihoods(model, CANDIDATES, REFERENCES)
    assert found["likelihood_candidate"] == pytest.approx(forward, abs=1e-4)
    assert found["likelihood_reference"] == pytest.approx(backward, abs=1e-4)
    assert found["likelihood"] == pytest.approx(numpy.mean([forward, backward], axis=0), abs=1e-4)
    assert found["likelihood_source"] == pytest.approx(log_likelihoods(model, SOURCES, CANDIDATES), abs=1e-4)
    assert len({round(value, 3) for value in (*forward, *backward)}) == 6
