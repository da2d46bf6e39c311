"""The translator against transformers' own forward pass and search, on tiny random Marian models."""

import multiprocessing
import os
import re
from pathlib import Path
from typing import Any

import ctranslate2
import numpy
import pytest
import torch
from tiny_marian import TEXTS, save_tiny_marian
from transformers import BertConfig, BertModel, MarianMTModel, MarianTokenizer

from pipeline.core import runtime
from pipeline.core.errors import ModelError, ParamsError
from pipeline.core.params import from_mapping, params
from pipeline.teachers import cublas
from pipeline.teachers import translator as module
from pipeline.teachers.translator import Pivot, Pivots, Translator, _decoding_limit, converted, language_token


@pytest.fixture(autouse=True)
def own_work_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BLEURT_DEVICE", "cpu")


@pytest.fixture(scope="module", params=["pair", "many-target", "swish"])
def folder(request, tmp_path_factory) -> Path:
    languages = (">>fra<<", ">>deu<<") if request.param == "many-target" else ()
    activation = "swish" if request.param == "swish" else "relu"
    return save_tiny_marian(tmp_path_factory.mktemp("marian"), languages, activation=activation)


class Oracle:
    """transformers' Marian classes, one sentence at a time, without padding."""

    def __init__(self, folder: Path) -> None:
        self.model = MarianMTModel.from_pretrained(folder).eval()
        self.tokenizer = MarianTokenizer.from_pretrained(folder)

    def source(self, text: str, token: str | None) -> torch.Tensor:
        prefix = [] if token is None else [self.tokenizer.get_vocab()[token]]
        return torch.tensor([prefix + self.tokenizer(text)["input_ids"]])

    @torch.inference_mode()
    def log_probabilities(self, source: str, target: str, token: str | None) -> list[float]:
        labels = self.tokenizer(text_target=target)["input_ids"]
        shifted = torch.tensor([[self.model.config.decoder_start_token_id, *labels[:-1]]])
        logits = self.model(input_ids=self.source(source, token), decoder_input_ids=shifted).logits[0]
        logits[:, -1] = -torch.inf  # <pad> is no word
        return logits.log_softmax(-1)[torch.arange(len(labels)), labels].tolist()

    @torch.inference_mode()
    def translate(self, text: str, token: str | None, beam_width: int) -> str:
        source = self.source(text, token)
        banned = [[self.model.config.pad_token_id], [self.tokenizer.unk_token_id]]
        ids = self.model.generate(
            source,
            num_beams=beam_width,
            max_new_tokens=_decoding_limit(source.shape[1], self.model.config.max_position_embeddings),
            min_new_tokens=2,  # one piece and the end
            bad_words_ids=banned,
            do_sample=False,
            early_stopping=True,
        )
        pieces = self.tokenizer.convert_ids_to_tokens(ids[0].tolist())
        return self.tokenizer.spm_target.decode_pieces([p for p in pieces if p not in {"</s>", "<pad>"}]).strip()


def token_of(folder: Path) -> str | None:
    return ">>fra<<" if ">>fra<<" in MarianTokenizer.from_pretrained(folder).get_vocab() else None


def test_likelihood_equals_transformers_forward_pass(folder):
    translator, oracle = Translator(folder), Oracle(folder)
    targets = [*TEXTS[1:], "the zebra 7 &"]
    expected = [oracle.log_probabilities(s, t, token_of(folder)) for s, t in zip(TEXTS, targets, strict=True)]
    found = translator.log_likelihood(TEXTS, targets, "fr", batch_sentences=4)
    assert found.tokens.tolist() == [len(row) for row in expected]
    assert numpy.allclose(found.log_probability, [sum(row) for row in expected], atol=1e-4)
    assert numpy.allclose(found.per_token(), [sum(row) / len(row) for row in expected], atol=1e-4)


def test_empty_target_scores_the_end_of_sentence(folder):
    expected = Oracle(folder).log_probabilities(TEXTS[0], "", token_of(folder))
    found = Translator(folder).log_likelihood(TEXTS[:1], [""], "fr", batch_sentences=4)
    assert len(expected) == 1
    assert found.tokens.tolist() == [1]
    assert found.log_probability[0] == pytest.approx(expected[0], abs=1e-4)


def test_no_targets_give_empty_arrays(folder):
    found = Translator(folder).log_likelihood([], [], "fr", batch_sentences=4)
    assert found.per_token().tolist() == []


@pytest.mark.parametrize("seed", [0, 2])
def test_greedy_translation_equals_transformers(tmp_path, seed):
    folder = save_tiny_marian(tmp_path / "model", seed=seed, activation="swish")
    oracle = Oracle(folder)
    expected = [oracle.translate(text, None, beam_width=1) for text in TEXTS]
    assert len(set(map(len, expected))) > 2  # they end by themselves, at different lengths
    assert Translator(folder).translate(TEXTS, "fr", 1, batch_sentences=2) == expected


@pytest.mark.parametrize("beam_width", [2, 4])
def test_beam_search_equals_transformers(tmp_path, beam_width):
    """Where no hypothesis ends early: there the libraries differ in how they normalise by length."""
    folder = save_tiny_marian(tmp_path / "model", (">>fra<<",), end_bias=-30.0)
    oracle = Oracle(folder)
    expected = [oracle.translate(text, ">>fra<<", beam_width) for text in TEXTS]
    assert expected != [oracle.translate(text, ">>fra<<", beam_width=1) for text in TEXTS]
    assert Translator(folder).translate(TEXTS, "fr", beam_width, batch_sentences=2) == expected


def test_language_token_changes_the_translation(tmp_path):
    translator = Translator(save_tiny_marian(tmp_path / "many", (">>fra<<", ">>deu<<")))
    french, german = (translator.translate(TEXTS, language, 1, 4) for language in ("fr", "de"))
    assert french != german


def test_batch_size_changes_no_translation(folder):
    translator = Translator(folder)
    texts = ["", *TEXTS, TEXTS[1] * 2, " "]
    once = translator.translate(texts, "fr", 2, 1)
    assert [translator.translate(texts, "fr", 2, size) for size in (2, 64)] == [once, once]
    assert (once[0], once[-1]) == ("", "")


def test_long_texts_are_cut_and_counted(folder):
    translator = Translator(folder)
    long = "the cat sat on the mat " * 40
    assert translator.fits(TEXTS[0])
    assert not translator.fits(long)
    assert len(translator.translate([long, TEXTS[0]], "fr", 1, 4)) == 2
    assert translator.truncated == 1
    found = translator.log_likelihood([TEXTS[0], long], [long, long], "fr", 4)
    assert found.tokens.tolist() == [64, 64]  # 63 pieces and the end: all positions
    assert translator.truncated == 4


def test_longest_text_that_fits_is_not_cut(folder):
    translator = Translator(folder)
    text = max((" ".join(["cat"] * n) for n in range(1, 62) if translator.fits(" ".join(["cat"] * n))), key=len)
    translator.translate([text], "fr", 1, 1)
    assert translator.truncated == 0
    assert not translator.fits(text + " cat cat")


def test_language_tokens_by_two_or_three_letters():
    assert language_token({">>fr<<": 0, ">>fra<<": 1}, "fr", Path("m")) == ">>fr<<"
    assert language_token({">>deu<<": 0}, "de", Path("m")) == ">>deu<<"
    assert language_token({">>tlh<<": 0}, "tlh", Path("m")) == ">>tlh<<"


def test_pair_and_many_source_models_need_no_token():
    assert language_token({"a": 0}, "fr", Path("m")) is None
    assert language_token({">>fra<<": 0}, "en", Path("m")) is None


def test_unknown_language_of_a_many_target_model_is_refused():
    with pytest.raises(ModelError, match=r"^m: does not translate into 'cs'; its languages are >>deu<<, >>fra<<.$"):
        language_token({">>fra<<": 0, ">>deu<<": 1}, "cs", Path("m"))


def test_other_architecture_is_refused(tmp_path):
    config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
    BertModel(config).save_pretrained(tmp_path / "bert")
    with pytest.raises(ModelError, match=r"is a bert model; translation needs a Marian model"):
        Translator(tmp_path / "bert")


def test_conversion_happens_once_and_follows_the_weights(tmp_path):
    model = save_tiny_marian(tmp_path / "a")
    first = converted(model)
    stamp = (first / "model.bin").stat().st_mtime_ns
    assert converted(model) == first
    assert (first / "model.bin").stat().st_mtime_ns == stamp
    assert converted(save_tiny_marian(tmp_path / "b", seed=1)) != first
    assert sorted(p.name for p in first.parent.iterdir() if p.name.startswith(".")) == []


def _convert(folder: Path, work: Path) -> str:
    os.chdir(work)
    return converted(folder).name


def test_workers_that_convert_at_once_agree(tmp_path):
    model = save_tiny_marian(tmp_path / "a")
    with multiprocessing.get_context("fork").Pool(3) as pool:
        names = pool.starmap(_convert, [(model, tmp_path)] * 3)
    assert len(set(names)) == 1
    assert [p.name for p in (tmp_path / ".work" / "ctranslate2").iterdir()] == [names[0]]


def test_without_cublas_a_machine_with_a_gpu_translates_on_all_of_its_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(save_tiny_marian(tmp_path / "a"))
    texts = ["the cat sat", "a dog", "the small red house", "", "a bird ran on the mat"] * 3
    alone = module.Translator(folder).translate(texts, "en", 2, 2)
    asked: list[int] = []
    real = ctranslate2.Translator

    def engine(*given: Any, **settings: Any) -> Any:
        asked.append(settings["inter_threads"])
        return real(*given, **settings)

    module._gpu_translates.cache_clear()
    monkeypatch.setattr(cublas, "load", lambda: False)
    monkeypatch.setattr(runtime, "device", lambda: "cuda:1")
    monkeypatch.setattr(runtime, "workers", lambda: 2)
    monkeypatch.setattr(runtime, "cores", lambda: 7)
    monkeypatch.setattr(ctranslate2, "Translator", engine)
    assert [module.Translator(folder).translate(texts, "en", 2, 2) for _ in range(2)] == [alone, alone]
    assert asked == [3, 3]
    assert capsys.readouterr().out == (
        "translating on the CPU, 3 batches at once: "
        "CTranslate2 needs libcublas.so.12 (pip install 'bleurt-pipeline[gpu]')\n"
    )
    module._gpu_translates.cache_clear()


def test_a_translator_that_is_not_whole_is_one_sentence(tmp_path: Path) -> None:
    folder = save_tiny_marian(tmp_path / "model")
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:1000])
    with pytest.raises(ModelError, match=f"^{folder}: cannot be loaded "):
        Translator(folder)
    (folder / "model.safetensors").write_bytes(whole)
    (folder / "config.json").unlink()
    with pytest.raises(ModelError, match=f"^{folder}: cannot be loaded "):
        Translator(folder)


@params
class RoundTrip:
    """What a stage's params may hold."""

    pivots: Pivots


@pytest.mark.parametrize("value", ["both", {"fr": {"to": "there", "back": "./back"}}])
def test_pivots_are_written_out_or_named_by_their_key_among_the_profiles_models(value: object) -> None:
    models = {"there": "bundled:there", "both": {"fr": {"to": "there", "back": "./back"}}}
    found = from_mapping({"pivots": value}, RoundTrip, "perturb.backtranslate", models=models)
    assert found.pivots == {"fr": Pivot("bundled:there", "./back")}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("spam", "pivots: must be a mapping, or the key of one among the profile's models, not 'spam'."),
        ("there", "pivots: must be a mapping, or the key of one among the profile's models, not 'there'."),
        ("half", "pivots.fr.back: missing."),
        (["fr"], "pivots: must be a mapping, not ['fr']."),
    ],
)
def test_pivots_that_are_not_there_are_named(value: object, message: str) -> None:
    models = {"there": "bundled:there", "half": {"fr": {"to": "there"}}}
    with pytest.raises(ParamsError, match=f"^{re.escape(f'perturb.backtranslate.{message}')}$"):
        from_mapping({"pivots": value}, RoundTrip, "perturb.backtranslate", models=models)
