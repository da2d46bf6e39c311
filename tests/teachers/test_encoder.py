"""Model folders that cannot be used."""

import shutil
from pathlib import Path

import pytest

from pipeline.core.errors import ModelError
from pipeline.teachers.encoder import load_encoder


def test_only_the_layers_asked_for_are_loaded(tiny_encoder: Path) -> None:
    assert len(load_encoder(tiny_encoder, 2, "cpu").model.encoder.layer) == 2
    assert load_encoder(tiny_encoder, 2, "cpu").max_tokens == 40


def test_a_layer_that_the_model_lacks_is_refused(tiny_encoder: Path) -> None:
    with pytest.raises(ModelError) as caught:
        load_encoder(tiny_encoder, 4, "cpu")
    assert str(caught.value) == f"{tiny_encoder}: has layers 0 to 3, so layer 4 cannot be used."


def test_cut_weights_are_refused(tiny_encoder: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_encoder, tmp_path, dirs_exist_ok=True)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ModelError, match=f"^{tmp_path}: cannot be loaded "):
        load_encoder(tmp_path, 1, "cpu")


def test_a_folder_without_a_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=f"^{tmp_path}: cannot be loaded "):
        load_encoder(tmp_path, 1, "cpu")
