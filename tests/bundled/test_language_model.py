"""The language model's loss: every next piece, no padding, and nothing of what follows."""

import math

import pytest
import torch
from transformers import BertConfig, BertLMHeadModel

from pipeline.bundled.recipes.language_model import next_piece_loss, perplexity


@pytest.fixture
def model() -> BertLMHeadModel:
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=20, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=16, is_decoder=True,
    )  # fmt: skip
    return BertLMHeadModel(config).eval()


def test_the_loss_is_that_of_transformers_for_each_text(model: BertLMHeadModel) -> None:
    rows = [[2, 9, 11, 7, 3], [2, 8, 3]]
    with torch.no_grad():
        found = next_piece_loss(model, rows)
        wanted = [model(input_ids=torch.tensor([row]), labels=torch.tensor([row])).loss for row in rows]
    assert found.shape == (6,)
    assert float(found[:4].mean()) == pytest.approx(float(wanted[0]), abs=1e-5)
    assert float(found[4:].mean()) == pytest.approx(float(wanted[1]), abs=1e-5)
    assert perplexity(model, rows) == pytest.approx(math.exp(float(found.mean())), rel=1e-5)


def test_a_piece_does_not_see_what_follows(model: BertLMHeadModel) -> None:
    with torch.no_grad():
        one, other = (next_piece_loss(model, [[2, 9, 11, last]]) for last in (7, 13))
    assert one[:2].tolist() == pytest.approx(other[:2].tolist(), abs=1e-6)
    assert one[2] != other[2]
