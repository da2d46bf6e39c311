"""Prediction: the same values in any batches and on any number of copies, and what the last layer reads."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy
import pytest
import torch
from tiny_filler import save_tiny_filler
from transformers import PreTrainedModel

from pipeline.core.errors import ParamsError
from pipeline.core.models import load_config, load_tokenizer
from pipeline.metric import prediction
from pipeline.metric.checkpoint import Head, head_of, new_metric, save_metric
from pipeline.metric.pairs import EncodedPairs, encode_pairs
from pipeline.metric.prediction import Replicas, head_inputs, outputs, predict, readable_tokens

REFERENCES = ["the cat sat on the mat.", "a dog ran.", "the small red house", "paris", "the bird sat on the house"]
CANDIDATES = ["the cat sat.", "the dog ran", "the small house was red", "", "the bird"]


@pytest.fixture(scope="module", params=Head)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with random weights and two outputs."""
    place = tmp_path_factory.mktemp("prediction")
    encoder = save_tiny_filler(place / "encoder")
    model = new_metric(str(encoder), request.param, ["fluency", "adequacy"], dropout=0.1, seed=3)
    torch.nn.init.normal_(head_of(model).weight, std=0.2, generator=torch.Generator().manual_seed(5))
    save_metric(model.eval(), load_tokenizer(encoder), place / "metric")
    return place / "metric"


@pytest.fixture(scope="module")
def model(folder: Path) -> PreTrainedModel:
    return prediction.load_metric(folder, "cpu")


@pytest.fixture(scope="module")
def pairs(folder: Path) -> EncodedPairs:
    return encode_pairs(load_tokenizer(folder), REFERENCES, CANDIDATES, 64)


@pytest.fixture(scope="module")
def expected(model: PreTrainedModel, pairs: EncodedPairs) -> numpy.ndarray:
    """Outputs of one pair at a time."""
    with torch.inference_mode():
        return numpy.concatenate([model(**pairs.batch([row], "cpu")).logits.numpy() for row in range(len(pairs))])


@pytest.mark.parametrize("batch_tokens", [1, 20, 10_000])
def test_outputs_stand_in_the_order_of_the_pairs_whatever_the_batches(
    model: PreTrainedModel, pairs: EncodedPairs, expected: numpy.ndarray, batch_tokens: int
) -> None:
    found = outputs(model, pairs, batch_tokens)
    assert (found.shape, found.dtype) == ((5, 2), numpy.float32)
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_several_copies_and_short_shares_give_the_same(
    model: PreTrainedModel, pairs: EncodedPairs, expected: numpy.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    three = Replicas(model, ["cpu"] * 3)
    assert three.outputs(pairs, 1) == pytest.approx(expected, rel=1e-5, abs=1e-5)
    assert three.head_inputs(pairs, 1) == pytest.approx(head_inputs(model, pairs, 64), rel=1e-5, abs=1e-5)
    monkeypatch.setattr(prediction, "SHARE_BATCHES", 2)
    assert outputs(model, pairs, 1) == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_only_the_rows_that_are_named_are_computed(
    model: PreTrainedModel, pairs: EncodedPairs, expected: numpy.ndarray
) -> None:
    sizes: list[int] = []
    hook = model.register_forward_pre_hook(
        lambda module, given, named: sizes.append(len(named["input_ids"])), with_kwargs=True
    )
    found = Replicas(model).outputs(pairs, 10_000, rows=numpy.array([4, 0, 2]), batch_pairs=2)
    hook.remove()
    assert sizes == [2, 1]
    assert found[[0, 2, 4]] == pytest.approx(expected[[0, 2, 4]], rel=1e-5, abs=1e-5)
    assert numpy.isnan(found[[1, 3]]).all()


def test_the_last_layer_on_its_inputs_gives_the_outputs(
    model: PreTrainedModel, pairs: EncodedPairs, expected: numpy.ndarray
) -> None:
    layer = head_of(model)
    features = head_inputs(model, pairs, 20)
    assert features.shape == (5, layer.in_features)
    with torch.inference_mode():
        assert layer(torch.from_numpy(features)).numpy() == pytest.approx(expected, rel=1e-5, abs=1e-5)
    assert outputs(model, pairs, 20) == pytest.approx(expected, rel=1e-5, abs=1e-5), "no hook is left"


def test_threads_may_ask_for_outputs_and_head_inputs_at_once(
    model: PreTrainedModel, pairs: EncodedPairs, expected: numpy.ndarray
) -> None:
    replicas, features = Replicas(model), head_inputs(model, pairs, 20)
    with ThreadPoolExecutor(6) as threads:
        both = [(threads.submit(replicas.outputs, pairs, 20), threads.submit(replicas.head_inputs, pairs, 20))
                for _ in range(6)]  # fmt: skip
        for found, read in both:
            assert found.result() == pytest.approx(expected, rel=1e-5, abs=1e-5)
            assert read.result() == pytest.approx(features, rel=1e-5, abs=1e-5)


def test_no_pairs_have_no_outputs(model: PreTrainedModel, folder: Path) -> None:
    assert outputs(model, encode_pairs(load_tokenizer(folder), [], [], 64), 64).shape[0] == 0


def test_a_folder_predicts_what_its_model_does(
    folder: Path, expected: numpy.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BLEURT_DEVICE", "cpu")
    assert predict(folder, REFERENCES, CANDIDATES, 64, 64) == pytest.approx(expected, rel=1e-5, abs=1e-5)
    with pytest.raises(ParamsError, match="must lie between 5 and 64 for this model, not 65"):
        predict(folder, REFERENCES, CANDIDATES, 65, 64)


def test_as_many_tokens_are_read_as_are_wanted_or_as_fit(folder: Path) -> None:
    config, tokenizer = load_config(folder), load_tokenizer(folder)
    assert [readable_tokens(config, tokenizer, wanted, "max_tokens") for wanted in (None, 20)] == [64, 20]
    with pytest.raises(ParamsError, match=r"^--max_tokens: must lie between 5 and 64 for this model, not 200\.$"):
        readable_tokens(config, tokenizer, 200, "--max_tokens")
