"""The likelihood signal against transformers' own forward pass, on tiny random Marian models."""

import dataclasses

import numpy
import pyarrow
import pytest
import torch
from tiny_marian import TEXTS, save_tiny_marian
from transformers import MarianMTModel, MarianTokenizer

from pipeline.core.errors import ParamsError
from pipeline.core.params import from_mapping
from pipeline.label.signals.backtranslation import Params, models, score
from pipeline.teachers.translator import Pivot, Translator, load_translator


@pytest.fixture
def params(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BLEURT_DEVICE", "cpu")
    many = str(save_tiny_marian(tmp_path / "many", (">>fra<<", ">>deu<<"), seed=2, end_bias=5.0))
    back = [str(save_tiny_marian(tmp_path / name, seed=seed)) for name, seed in (("fr-en", 3), ("de-en", 4))]
    pivots = {"fr": Pivot(many, back[0]), "de": Pivot(many, back[1])}
    return Params(language="en", pivots=pivots, beam_width=2, batch_sentences=4)


def table(references: list[str], candidates: list[str]) -> pyarrow.Table:
    return pyarrow.table({"reference": references, "candidate": candidates})


@torch.inference_mode()
def oracle(folder: str, source: str, target: str) -> float:
    model, tokenizer = MarianMTModel.from_pretrained(folder).eval(), MarianTokenizer.from_pretrained(folder)
    labels = tokenizer(text_target=target)["input_ids"]
    shifted = torch.tensor([[model.config.decoder_start_token_id, *labels[:-1]]])
    logits = model(input_ids=torch.tensor([tokenizer(source)["input_ids"]]), decoder_input_ids=shifted).logits[
        0, :, :-1
    ]
    return logits.log_softmax(-1)[torch.arange(len(labels)), labels].mean().item()


def test_four_columns_equal_transformers(params):
    references, candidates = list(TEXTS[:3]), [TEXTS[5], "", TEXTS[0]]
    found = score(table(references, candidates), params)
    assert found.shape == (3, 4)
    assert found.dtype == numpy.float32
    for row, (reference, candidate) in enumerate(zip(references, candidates, strict=True)):
        expected = []
        for language in ("fr", "de"):
            pivot = params.pivots[language]
            there = load_translator(pivot.to).translate([reference, candidate], language, 2, 1)
            expected += [oracle(pivot.back, there[0], candidate), oracle(pivot.back, there[1], reference)]
        assert found[row].tolist() == pytest.approx(expected, abs=1e-4)


def test_values_do_not_depend_on_the_batch_or_the_other_rows(params):
    whole = score(table(list(TEXTS), list(TEXTS[::-1])), params)
    alone = score(table([TEXTS[1]], [TEXTS[4]]), dataclasses.replace(params, batch_sentences=1))
    assert alone[0].tolist() == pytest.approx(whole[1].tolist(), abs=1e-5)


def test_each_unique_text_is_translated_once_a_pivot(params, monkeypatch):
    asked = []
    real = Translator.translate

    def counting(self, texts, language, beam_width, batch_sentences):
        asked.append((language, list(texts)))
        return real(self, texts, language, beam_width, batch_sentences)

    monkeypatch.setattr(Translator, "translate", counting)
    score(table(["a cat", "a cat", "a dog"], ["a dog", "a bird", "a cat"]), params)
    assert asked == [(language, ["a bird", "a cat", "a dog"]) for language in ("fr", "de")]


def test_empty_texts_have_finite_scores(params):
    found = score(table(["", TEXTS[0]], ["", ""]), params)
    assert numpy.isfinite(found).all()
    assert (found <= 0).all()


def test_long_texts_are_cut_with_a_warning(params, caplog):
    found = score(table(["the cat " * 100], [TEXTS[0]]), params)
    assert numpy.isfinite(found).all()
    assert "texts were cut to the fr models' 64 positions" in caplog.text


def test_models_are_each_named_once(params):
    assert sorted(folder.name for folder in models(params)) == ["de-en", "fr-en", "many"]


def test_pivots_give_their_columns_in_the_order_written(params):
    pairs = table(list(TEXTS[:3]), list(TEXTS[3:]))
    swapped = dataclasses.replace(params, pivots=dict(reversed(params.pivots.items())))
    assert score(pairs, swapped).tolist() == score(pairs, params)[:, [2, 3, 0, 1]].tolist()


def test_the_texts_language_is_asked_of_the_way_back(params, monkeypatch):
    asked = []
    real = Translator.log_likelihood

    def noting(self, sources, targets, language, batch_sentences):
        asked.append(language)
        return real(self, sources, targets, language, batch_sentences)

    monkeypatch.setattr(Translator, "log_likelihood", noting)
    score(table(["a cat"], ["a dog"]), dataclasses.replace(params, language="it"))
    assert asked == ["it", "it"]


def loaded(params, **changes):
    """The params as the loader makes them, with some values changed."""
    values = {field.name: getattr(params, field.name) for field in dataclasses.fields(params)} | changes
    pivots = {name: {"to": pivot.to, "back": pivot.back} for name, pivot in values["pivots"].items()}
    return from_mapping({**values, "pivots": pivots}, Params, "label.backtranslation")


@pytest.mark.parametrize(("language", "pivots", "named"), [("en", ["fr"], "fr"), ("de", ["fr", "de"], "fr, de")])
def test_other_than_two_foreign_pivots_are_refused(params, language, pivots, named):
    with pytest.raises(ParamsError) as caught:
        loaded(params, language=language, pivots={name: params.pivots[name] for name in pivots})
    problem = f"must be two languages other than {language}, not {named}."
    assert str(caught.value) == f"label.backtranslation.pivots: {problem}"


@pytest.mark.parametrize("key", ["beam_width", "batch_sentences"])
def test_sizes_below_one_are_refused(params, key):
    with pytest.raises(ParamsError, match=rf"^label\.backtranslation\.{key}: must be at least 1, not 0\.$"):
        loaded(params, **{key: 0})


def test_pivots_may_be_named_by_their_key_among_the_profiles_models():
    values = {"language": "en", "pivots": "pivots", "beam_width": 1, "batch_sentences": 8}
    named = {"fr": {"to": "a", "back": "b"}, "de": {"to": "c", "back": "d"}}
    found = from_mapping(values, Params, "label.backtranslation", models={"pivots": named})
    assert {language: (pivot.to, pivot.back) for language, pivot in found.pivots.items()} == {
        "fr": ("a", "b"),
        "de": ("c", "d"),
    }
