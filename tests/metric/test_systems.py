"""RUSE, BERT regressors and ESIM: texts read apart, features by hand, checkpoints that come back as they were."""

import math
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from tiny_filler import save_tiny_filler
from tiny_mpnet import save_tiny_mpnet
from transformers import AutoModel

from pipeline.core.models import load_tokenizer, usable_tokens
from pipeline.metric.apart import States, TextsApart, apart_settings, texts_apart
from pipeline.metric.checkpoint import load_metric, save_metric
from pipeline.metric.esim import EsimConfig, EsimMetric, attended
from pipeline.metric.pairs import encode_pairs
from pipeline.metric.prediction import outputs
from pipeline.metric.regressor import RegressorConfig, RegressorMetric, Vectors, compared, vectors

REFERENCES = ["the cat sat on the mat.", "a dog ran.", "paris"]
CANDIDATES = ["a cat sat", "", "the small red house and the bird sat on it"]


@pytest.fixture
def encoders(tmp_path: Path) -> list[Path]:
    return [save_tiny_filler(tmp_path / "bert", seed=1), save_tiny_mpnet(tmp_path / "mpnet")]


def of(folders: list[Path]) -> tuple[list[Any], list[Any], TextsApart]:
    models = [AutoModel.from_pretrained(folder).eval() for folder in folders]
    tokenizers = [load_tokenizer(folder) for folder in folders]
    longest = [usable_tokens(m.config, t) for m, t in zip(models, tokenizers, strict=True)]
    return models, tokenizers, texts_apart(tokenizers, [model.config for model in models], longest)


def filled(model: Any, encoders: list[Any]) -> Any:
    for mine, given in zip(model.encoders, encoders, strict=True):
        mine.load_state_dict(given.state_dict(), strict=False)
    return model.eval()


def test_every_encoder_sees_either_text_as_it_would_alone(encoders: list[Path]) -> None:
    models, tokenizers, apart = of(encoders)
    ruse = filled(RegressorMetric(RegressorConfig(**apart_settings(models, apart, ["x"], 0.0))), models)
    inputs = encode_pairs(apart, REFERENCES, CANDIDATES, 64).batch([0, 1, 2], "cpu")
    for number, (model, tokenizer) in enumerate(zip(models, tokenizers, strict=True)):
        sides = ruse.sides(number, inputs["input_ids"], inputs["attention_mask"], inputs["token_type_ids"])
        for side, texts in zip(sides, (REFERENCES, CANDIDATES), strict=True):
            for row, text in enumerate(texts):
                alone = model(**tokenizer([text], return_tensors="pt", padding=False)).last_hidden_state[0]
                torch.testing.assert_close(side.layers[-1][row][side.words[row]], alone, atol=1e-5, rtol=1e-4)


def test_a_long_pair_is_cut_to_the_tokens_of_each_encoder(encoders: list[Path]) -> None:
    *_, apart = of(encoders)
    pairs = encode_pairs(apart, ["the cat", "the"], ["cat " * 30, "cat"], 12)
    assert pairs.cut.tolist() == [True, False]
    assert pairs.lengths.tolist() == [2 * 12, 2 * 6]  # [CLS] the [SEP] and [CLS] cat [SEP], in either vocabulary
    assert pairs.seconds.tolist() == [2 * 4, 2 * 3], "the longer side lost its end"
    assert apart.num_special_tokens_to_add(pair=True) == 4


def test_vectors_by_hand() -> None:
    """Two words of two numbers; the padding does not count."""
    low, high = torch.tensor([[[1.0, 2.0], [3.0, 6.0], [9.0, 9.0]]]), torch.tensor([[[5.0, 7.0], [1.0, 1.0], [0, 0]]])
    states = States((torch.zeros(1, 3, 2), low, high), torch.tensor([[True, True, False]]))
    assert vectors(states, Vectors.MEAN).tolist() == [[3.0, 4.0]]
    assert vectors(states, Vectors.CLS).tolist() == [[5.0, 7.0]]
    assert vectors(states, Vectors.CLS4).tolist() == [[1.0, 2.0, 5.0, 7.0]], "both layers, not the embeddings"
    assert compared(torch.tensor([[1.0]]), torch.tensor([[-2.0]])).tolist() == [[1.0, -2.0, 3.0, -2.0]]


def test_attention_leaves_out_padding() -> None:
    """The products are 0 and ln 3, so the weights 1/4 and 3/4; the third word of the other text is padding."""
    log3 = math.log(3.0)
    states, others = torch.tensor([[[1.0, 0.0]]]), torch.tensor([[[0.0, 8.0], [log3, 4.0], [50.0, 50.0]]])
    seen = attended(states, torch.ones(1, 1, dtype=torch.bool), others, torch.tensor([[True, True, False]]))
    torch.testing.assert_close(seen, torch.tensor([[[0.75 * log3, 5.0]]]))


def systems(folders: list[Path]) -> dict[str, tuple[Any, Any]]:
    """Name -> model and tokenizer, of each kind one."""
    models, tokenizers, apart = of(folders)
    *_, alone = of(folders[:1])
    two, one = apart_settings(models, apart, ["x"], 0.1), apart_settings(models[:1], alone, ["x"], 0.1)
    pair = RegressorConfig(inputs="pair", vectors="cls4", layers=0, **one)
    return {
        "ruse": (filled(RegressorMetric(RegressorConfig(layers=2, width=8, **two)), models), apart),
        "bert": (filled(RegressorMetric(pair), models[:1]), tokenizers[0]),
        "esim": (filled(EsimMetric(EsimConfig(width=6, **one)), models[:1]), alone),
    }


@pytest.mark.parametrize("name", ["ruse", "bert", "esim"])
def test_a_checkpoint_comes_back_and_other_pairs_of_a_batch_change_nothing(
    name: str, encoders: list[Path], tmp_path: Path
) -> None:
    model, tokenizer = systems(encoders)[name]
    save_metric(model, tokenizer, tmp_path / "saved")
    again, read = load_metric(tmp_path / "saved", "cpu"), load_tokenizer(tmp_path / "saved")
    pairs = [encode_pairs(one, REFERENCES, CANDIDATES, 40) for one in (tokenizer, read)]
    expected, found = (outputs(m, p, 1000) for m, p in zip((model, again), pairs, strict=True))
    numpy.testing.assert_allclose(found, expected, atol=1e-6)
    assert len(set(found[:, 0].tolist())) == 3
    alone = [outputs(again, pairs[1].take(numpy.array([row])), 1000)[0, 0] for row in range(3)]
    numpy.testing.assert_allclose(found[:, 0], alone, atol=1e-5)
