"""Perplexity of each candidate and of all together, against transformers' own loss."""

from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from tiny_gpt import save_tiny_gpt
from transformers import AutoTokenizer, GPT2LMHeadModel

from pipeline.evaluate.metrics import Texts, known_metrics
from pipeline.evaluate.metrics.perplexity import Params
from pipeline.evaluate.predictions import score_segments
from pipeline.teachers.language_model import load_language_model

CANDIDATES = (
    "the old bridge was built",
    "a town",
    "river",
    "the unheard house by the river near a new town in the old",
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_gpt(tmp_path_factory.mktemp("gpt"))


def losses(folder: Path) -> tuple[list[float], list[int]]:
    """Mean negative log likelihood and tokens of each candidate, by the model's own loss behind its start token."""
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    gpt: Any = GPT2LMHeadModel.from_pretrained(folder).eval()
    rows = [[0, *tokenizer(text)["input_ids"]] for text in CANDIDATES]
    with torch.inference_mode():
        found = [float(gpt(input_ids=torch.tensor([row]), labels=torch.tensor([row])).loss) for row in rows]
    return found, [len(row) - 1 for row in rows]


def score(name: str, model: Path, candidates: tuple[str, ...] = CANDIDATES, batch_tokens: int = 64) -> numpy.ndarray:
    count = len(candidates)
    return known_metrics()[name].score(
        Texts(((),) * count, (None,) * count, candidates), Params(str(model)), batch_tokens
    )


def test_each_text_has_the_perplexity_of_transformers(model: Path) -> None:
    means, _ = losses(model)
    assert score("perplexity", model) == pytest.approx(-numpy.exp(means), rel=1e-5)
    assert score("gptscore", model) == pytest.approx(-numpy.array(means), rel=1e-5)
    assert score("perplexity", model, batch_tokens=1) == pytest.approx(-numpy.exp(means), rel=1e-5)


def test_pooled_perplexity_weighs_tokens_alike(model: Path) -> None:
    means, tokens = losses(model)
    assert float(score("perplexity_pooled", model)) == pytest.approx(-numpy.exp(numpy.dot(means, tokens) / sum(tokens)))


def test_a_candidate_without_a_token_has_no_number(model: Path) -> None:
    found = score("perplexity", model, ("the", "", "a"))
    assert numpy.isnan(found).tolist() == [False, True, False]
    texts = Texts(((), ()), (None, None), ("", ""))
    assert numpy.isnan(score_segments(known_metrics()["gptscore"], Params(str(model)), texts, 8)).all()


def test_longer_texts_are_cut_to_the_positions_and_counted(model: Path) -> None:
    loaded = load_language_model(str(model))
    before = loaded.truncated
    found = loaded.log_likelihood(["the " * 40, "the " * 15], 64)
    assert found.tokens.tolist() == [15, 15] and found.log_probability[0] == pytest.approx(found.log_probability[1])
    assert loaded.truncated == before + 1
