"""Packed layers: the scores of plain ones, no second copy of the weights, a choice that is measured once."""

import gc
import weakref
from pathlib import Path

import pytest
import torch
from tiny_filler import save_tiny_filler
from tiny_mpnet import save_tiny_mpnet

from pipeline.core.errors import ParamsError
from pipeline.core.kernels import PackedLinear, has_bf16, has_int8
from pipeline.core.models import load_tokenizer
from pipeline.metric import kernels, prediction
from pipeline.metric.checkpoint import ExactLinear, Head, head_of, load_metric, new_metric, save_metric
from pipeline.metric.kernels import Int8Linear, pack
from pipeline.metric.pairs import encode_pairs
from pipeline.metric.prediction import Replicas, outputs, precision_on, predict

REFERENCES = ["the cat sat on the mat.", "a dog ran.", "the small red house", "paris", "the bird sat on the house"]
CANDIDATES = ["the cat sat.", "the dog ran", "the small house was red", "", "the bird"]

LARGEST = {"float32": 1e-5, "bf16": 0.4, "int8": 0.4}
"""How far a score of the tiny models may move. Random weights multiply rounding: bf16 and int8 moved one by up to 0.28.

This only finds gross faults there; how far a trained metric moves is what `bleurt bench` measures.
"""

MAKERS = {"bert": save_tiny_filler, "mpnet": save_tiny_mpnet}


@pytest.fixture(autouse=True)
def packed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packing counts as faster."""
    monkeypatch.setenv("BLEURT_KERNELS", "onednn")


@pytest.fixture(scope="module", params=[(kind, head) for kind in MAKERS for head in Head], ids=str)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with random weights and two outputs."""
    kind, head = request.param
    place = tmp_path_factory.mktemp("kernels")
    encoder = MAKERS[kind](place / "encoder")
    model = new_metric(str(encoder), head, ["fluency", "adequacy"], dropout=0.1, seed=3)
    torch.nn.init.normal_(head_of(model).weight, std=0.2, generator=torch.Generator().manual_seed(5))
    save_metric(model.eval(), load_tokenizer(encoder), place / "metric")
    return place / "metric"


def skip_without(precision: str) -> None:
    able = {"float32": torch.backends.mkldnn.is_available(), "bf16": has_bf16(), "int8": has_int8()}
    if not able[precision]:
        pytest.skip(f"this processor has no kernels for {precision}")


@pytest.mark.parametrize("precision", LARGEST)
def test_packed_layers_score_as_plain_ones(folder: Path, precision: str) -> None:
    skip_without(precision)
    pairs = encode_pairs(load_tokenizer(folder), REFERENCES, CANDIDATES, 64)
    expected = outputs(load_metric(folder, "cpu"), pairs, 100)
    replicas = Replicas(load_metric(folder, "cpu"), precision=precision, owned=True)
    found = replicas.outputs(pairs, 100)
    assert replicas.packed
    assert abs(found - expected).max() < LARGEST[precision]
    kinds = {type(module) for module in replicas.model.modules() if "Linear" in type(module).__name__}
    assert kinds == {Int8Linear if precision == "int8" else PackedLinear, ExactLinear}


def test_int8_scores_do_not_depend_on_what_shares_their_batch(folder: Path) -> None:
    skip_without("int8")
    pairs = encode_pairs(load_tokenizer(folder), REFERENCES, CANDIDATES, 64)
    replicas = Replicas(load_metric(folder, "cpu"), precision="int8", owned=True)
    assert abs(replicas.outputs(pairs, 1) - replicas.outputs(pairs, 10_000)).max() < 1e-4


def test_an_int8_layer_is_exact_where_all_numbers_are_levels() -> None:
    """Weights of -127 to 127, tokens of whole numbers from 0 to 255: nothing is rounded."""
    skip_without("int8")
    layer = torch.nn.Linear(3, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[127.0, -3, 5], [-127, 0, 64]]))
        layer.bias.copy_(torch.tensor([1.0, -1]))
        given = torch.tensor([[0.0, 255, 7], [255, 0, 128]])
        found = Int8Linear(layer)(given)
    assert found.tolist() == [[-765 + 35 + 1, 448 - 1], [32385 + 640 + 1, -32385 + 8192 - 1]]


def test_plain_weights_are_freed(folder: Path) -> None:
    skip_without("float32")
    model = load_metric(folder, "cpu")
    plain = [weakref.ref(layer) for layer in model.modules() if type(layer) is torch.nn.Linear]
    assert pack(model, "float32")
    gc.collect()
    assert len(plain) > 5
    assert [layer() for layer in plain] == [None] * len(plain)


def test_a_model_that_others_use_stays_plain(folder: Path) -> None:
    model = load_metric(folder, "cpu")
    before = [type(module) for module in model.modules()]
    assert not Replicas(model, precision="float32").packed
    assert [type(module) for module in model.modules()] == before


def test_predict_packs_its_own_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without("float32")
    seen: list[str] = []
    real = kernels.pack
    monkeypatch.setattr(prediction.kernels, "pack", lambda model, name: seen.append(name) or real(model, name))
    predict(folder, REFERENCES, CANDIDATES, 64, 100)
    assert seen == ["float32"]


def test_int8_is_refused_where_there_are_no_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "has_int8", lambda: False)
    with pytest.raises(ParamsError, match="int8 needs a CPU with VNNI or AMX"):
        precision_on("cpu", "int8")
