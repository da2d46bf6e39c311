"""Usable lengths of models, and weights that do not fit."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from tiny_filler import save_tiny_filler
from transformers import AutoModelForMaskedLM, BertConfig, RobertaConfig

from pipeline.core.errors import ModelError, ParamsError
from pipeline.core.models import check_max_tokens, load, load_config, load_tokenizer, usable_tokens


def tokenizer(longest: int) -> SimpleNamespace:
    return SimpleNamespace(model_max_length=longest, num_special_tokens_to_add=lambda pair: 4 if pair else 2)


@pytest.mark.parametrize(
    ("config", "longest", "usable"),
    [
        (BertConfig(max_position_embeddings=512), 10**30, 512),
        (BertConfig(max_position_embeddings=512), 128, 128),
        (RobertaConfig(max_position_embeddings=514, pad_token_id=1), 10**30, 512),
        (RobertaConfig(max_position_embeddings=514, pad_token_id=0), 10**30, 513),
    ],
)
def test_roberta_loses_positions_to_its_padding(config: object, longest: int, usable: int) -> None:
    assert usable_tokens(config, tokenizer(longest)) == usable


def test_max_tokens_must_fit_the_model_and_hold_words() -> None:
    config = RobertaConfig(max_position_embeddings=514, pad_token_id=1)
    for fits in (6, 512):
        check_max_tokens("pretrain.max_tokens", fits, config, tokenizer(10**30))
    for wrong in (5, 513):
        with pytest.raises(ParamsError) as caught:
            check_max_tokens("pretrain.max_tokens", wrong, config, tokenizer(10**30))
        assert str(caught.value) == f"pretrain.max_tokens: must lie between 6 and 512 for this model, not {wrong}."


@pytest.mark.parametrize(
    ("was", "becomes", "reason"),
    [
        ('"hidden_size": 16', '"hidden_size": 24', "weights of BertForMaskedLM are missing or of another shape"),
        ('"hidden_size": 16', '"hidden_size": "wide"', "cannot be loaded"),
        ('"model_type": "bert"', '"model_type": "unheard"', "cannot be loaded"),
        ("{", "", "cannot be loaded"),
    ],
)
def test_a_config_that_does_not_fit_is_one_sentence(tmp_path: Path, was: str, becomes: str, reason: str) -> None:
    save_tiny_filler(tmp_path)
    text = (tmp_path / "config.json").read_text()
    assert was in text
    (tmp_path / "config.json").write_text(text.replace(was, becomes))
    with pytest.raises(ModelError, match=f"^{tmp_path}: .*{reason}") as caught:
        load(AutoModelForMaskedLM, tmp_path)
    assert "\n" not in str(caught.value)


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "bare"
    folder.mkdir()
    shutil.copy(save_tiny_filler(tmp_path / "whole") / "config.json", folder)
    with pytest.raises(ModelError) as caught:
        load_tokenizer(folder)
    assert str(caught.value) == f"{folder}: holds no tokenizer."


def test_code_in_a_folder_is_neither_run_nor_asked_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save_tiny_filler(tmp_path / "encoder")
    config = json.loads((folder / "config.json").read_text())
    maps = {"AutoConfig": "evil.Config", "AutoModelForMaskedLM": "evil.Model"}
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "unheard_of", "auto_map": maps}))
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    for attempt in (lambda: load_config(folder), lambda: load(AutoModelForMaskedLM, folder)):
        with pytest.raises(ModelError, match="cannot be loaded"):
            attempt()
    assert not (tmp_path / "ran").exists()
