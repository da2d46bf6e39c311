"""Batches of similar length, and model folders that cannot be used."""

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.core.errors import ModelError
from pipeline.signals.transformer import length_batches, load_encoder


@given(st.lists(st.integers(1, 50), max_size=60), st.integers(1, 200))
def test_batches_hold_every_row_once_longest_first_within_the_budget(lengths: list[int], batch_tokens: int) -> None:
    batches = length_batches(lengths, batch_tokens)
    flat = [place for batch in batches for place in batch]
    assert sorted(flat) == list(range(len(lengths)))
    assert [lengths[place] for place in flat] == sorted(lengths, reverse=True)
    for batch in batches:
        assert len(batch) == 1 or len(batch) * lengths[batch[0]] <= batch_tokens


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
