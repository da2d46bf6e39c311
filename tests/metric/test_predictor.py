"""Predictor-Estimator: what a word is said from, features by hand, padding, checkpoints that come back as they were."""

from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from tiny_filler import save_tiny_filler
from tiny_predictor import save_tiny_predictor

from pipeline.core.kernels import has_bf16
from pipeline.core.models import load, load_tokenizer
from pipeline.metric.checkpoint import Head, load_metric, new_metric, save_metric
from pipeline.metric.estimator import EstimatorMetric
from pipeline.metric.pairs import encode_pairs
from pipeline.metric.prediction import Replicas, outputs
from pipeline.metric.predictor import Predictor, PredictorConfig, Said, features_of

SOURCES = ["the cat sat on the mat.", "a dog ran.", "paris"]
CANDIDATES = ["a cat sat", "", "the small red house and the bird sat on it"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save_tiny_predictor(tmp_path / "predictor")


def batch_of(tokenizer: Any, sources: list[str], candidates: list[str]) -> dict[str, torch.Tensor]:
    return encode_pairs(tokenizer, sources, candidates, 64).batch(range(len(sources)), "cpu")


def test_a_piece_is_said_from_all_pieces_but_itself(folder: Path) -> None:
    predictor, tokenizer = load(Predictor, folder), load_tokenizer(folder)
    texts = ["the cat sat", "the dog sat", "the cat ran"]
    said = predictor(**batch_of(tokenizer, ["paris"] * 3, texts))
    assert said.pieces[0].tolist() == [*tokenizer.convert_tokens_to_ids(["the", "cat", "sat"]), tokenizer.sep_token_id]
    assert torch.equal(said.vectors[0, 1], said.vectors[1, 1]), "the second piece itself is not read"
    for place in (0, 2, 3):
        assert not torch.allclose(said.vectors[0, place], said.vectors[1, place]), "it is read for all others"
    assert not torch.allclose(said.vectors[0, 1], said.vectors[2, 1]), "what stands behind a piece is read"
    assert not torch.equal(said.states[0, 1], said.states[1, 1]), "the states have read their own piece"
    other = predictor(**batch_of(tokenizer, ["a dog"], texts[:1]))
    assert not torch.allclose(said.vectors[0, 1], other.vectors[0, 1]), "the source is read"


def test_features_by_hand() -> None:
    """t = (ln 3, 1), embeddings (0, 0), (1, 0), (0, 0): products 0, ln 3, 0, and probabilities 1/5, 3/5, 1/5."""
    predictor = Predictor(PredictorConfig(3, 2, hidden_dropout_prob=0.0)).eval()
    with torch.no_grad():
        predictor.embeddings.weight.copy_(torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]]))
    log = numpy.log
    said = Said(
        torch.tensor([[[float(log(3)), 1.0]] * 3]), torch.tensor([[1, 2, 0]]),
        torch.tensor([[True, True, False]]), torch.tensor([[[1.0, 2.0, 3.0, 4.0]] * 3]),
    )  # fmt: skip
    entropy = 0.4 * log(5) + 0.6 * log(5 / 3)
    expected = [
        [log(3), 0.0, log(3 / 5), 0.0, entropy, 1, 2, 3, 4],
        [0.0, 0.0, log(1 / 5), -log(3), entropy, 1, 2, 3, 4],
        [0.0] * 9,
    ]
    found = features_of(predictor, said)[0].detach().numpy()
    numpy.testing.assert_allclose(found, numpy.array(expected, numpy.float32), atol=1e-6)


def test_a_checkpoint_comes_back_and_other_pairs_of_a_batch_change_nothing(folder: Path, tmp_path: Path) -> None:
    model, tokenizer = new_metric(str(folder), Head.ALIGNMENT, ["x"], 0.0, 1), load_tokenizer(folder)
    assert isinstance(model, EstimatorMetric), "a predictor has no [CLS], whatever head is asked for"
    known = load(Predictor, folder).state_dict()
    assert all(torch.equal(weight, known[name]) for name, weight in model.predictor.state_dict().items())
    again = new_metric(str(folder), Head.CLS, ["x"], 0.0, 1).state_dict()
    assert all(torch.equal(weight, again[name]) for name, weight in model.state_dict().items()), "the seed draws"
    save_metric(model, tokenizer, tmp_path / "saved")
    stored, read = load_metric(tmp_path / "saved", "cpu"), load_tokenizer(tmp_path / "saved")
    pairs = [encode_pairs(one, SOURCES, CANDIDATES, 40) for one in (tokenizer, read)]
    expected, found = (outputs(m, p, 1000) for m, p in zip((model, stored), pairs, strict=True))
    numpy.testing.assert_allclose(found, expected, atol=1e-6)
    assert len(set(found[:, 0].tolist())) == 3
    alone = [outputs(stored, pairs[1].take(numpy.array([row])), 1000)[0, 0] for row in range(3)]
    numpy.testing.assert_allclose(found[:, 0], alone, atol=1e-5)


@pytest.mark.skipif(not has_bf16(), reason="this processor does not compute in bfloat16")
def test_bfloat16_scores_nearly_alike(folder: Path, tmp_path: Path) -> None:
    model, tokenizer = new_metric(str(folder), Head.CLS, ["x"], 0.0, 1), load_tokenizer(folder)
    with torch.no_grad():
        model.classifier.weight.normal_()
    pairs = encode_pairs(tokenizer, SOURCES, CANDIDATES, 40)
    expected = outputs(model, pairs, 1000, "float32")
    found = Replicas(model, precision="bf16", owned=True).outputs(pairs, 1000)
    numpy.testing.assert_allclose(found, expected, atol=0.05)


def test_a_bert_gets_no_estimator(tmp_path: Path) -> None:
    assert not isinstance(new_metric(str(save_tiny_filler(tmp_path / "b")), Head.CLS, ["x"], 0.0, 1), EstimatorMetric)
