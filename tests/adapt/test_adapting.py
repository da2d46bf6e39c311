"""adapt: masking, and an encoder that learns from segments and is an encoder afterwards."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from tiny_filler import save_tiny_filler
from transformers import AutoModel

from pipeline.adapt.adapting import NO_TARGET, AdaptParams, adapt, masked_batch
from pipeline.core.errors import InputError, ModelError
from pipeline.core.models import load, load_tokenizer
from pipeline.core.records import SEGMENTS
from pipeline.core.shards import shard_name, table_of, write_shard
from pipeline.training import loop
from pipeline.training.schedule import Schedule

SCHEDULE = Schedule(
    steps=4, learning_rate=0.01, layer_decay=1.0, weight_decay=0.0, warmup_share=0.1, clip_norm=1.0, evaluate_every=2,
    save_every=1, seed=1,
)  # fmt: skip
PARAMS = AdaptParams(
    encoder="encoder", masked=0.3, max_tokens=16, batch_segments=4, dropout=0.0, validation_share=0.2,
    validation_segments=3, batch_tokens=64, schedule=SCHEDULE,
)  # fmt: skip


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an encoder (without a head) and 24 segments, which is the working folder."""
    save_tiny_filler(tmp_path / "filler")
    load(AutoModel, tmp_path / "filler", ("pooler",)).save_pretrained(tmp_path / "encoder")
    load_tokenizer(tmp_path / "filler").save_pretrained(tmp_path / "encoder")
    write(
        tmp_path / "segments", [f"the {a} {b} on the mat" for a in ("cat", "dog", "bird") for b in ("sat", "ran")] * 4
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BLEURT_DEVICE", "cpu")
    return tmp_path


def write(folder: Path, texts: list[str]) -> None:
    rows = [{"segment_id": f"1-{i}", "title": "t", "text": text} for i, text in enumerate(texts)]
    write_shard(folder / shard_name(0), table_of(rows, SEGMENTS))


def test_masks_hit_the_share_and_never_a_special_token(place: Path) -> None:
    tokenizer = load_tokenizer(place / "encoder")
    rows = [[2, *range(6, 40), 3]] * 200 + [[2, 9, 3]]
    found = masked_batch(rows, tokenizer, 0.3, seed=1)
    chosen = found["labels"] != NO_TARGET
    assert not chosen[:, 0].any() and not chosen[-1, 2:].any()
    assert found["attention_mask"].sum(1).tolist() == [36] * 200 + [3]
    assert abs(float(chosen[:200, 1:35].float().mean()) - 0.3) < 0.02
    assert abs(float((found["input_ids"][chosen] == tokenizer.mask_token_id).float().mean()) - 0.8) < 0.03
    assert (found["labels"][chosen] == torch.tensor([[*row, *[0] * (36 - len(row))] for row in rows])[chosen]).all()


def test_the_encoder_learns_and_stays_an_encoder(place: Path) -> None:
    longer = dataclasses.replace(SCHEDULE, steps=60, evaluate_every=30, learning_rate=0.02)
    adapt(dataclasses.replace(PARAMS, schedule=longer), place / "segments", place / "out")
    found = json.loads((place / "out" / "training.json").read_text(encoding="utf-8"))
    assert [point["step"] for point in found["steps"]] == [30, 60]
    assert found["steps"][1]["validation"] > found["steps"][0]["validation"]
    assert (found["segments"], found["segments_validation"]) == (21, 3)
    counts = json.loads((place / "out" / "counts.json").read_text(encoding="utf-8"))
    assert counts == {"rows_in": 24, "rows_out": 24, "dropped": {}}
    before, after = (load(AutoModel, place / name, ("pooler",)).state_dict() for name in ("encoder", "out"))
    key = "encoder.layer.0.output.dense.weight"
    assert before[key].shape == after[key].shape
    assert not torch.equal(before[key], after[key])
    read = [load_tokenizer(place / name)("the cat")["input_ids"] for name in ("encoder", "out")]
    assert read[0] == read[1]
    assert not list((place / ".work").rglob("state.pt"))


def test_a_killed_run_ends_with_the_same_weights(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    adapt(PARAMS, place / "segments", place / "whole" / "a")
    update, calls = loop.update, []

    def dies(*arguments: object) -> float:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return update(*arguments)

    monkeypatch.setattr(loop, "update", dies)
    with pytest.raises(KeyboardInterrupt):
        adapt(PARAMS, place / "segments", place / "killed" / "a")
    adapt(PARAMS, place / "segments", place / "killed" / "a")
    assert len(calls) == 3 + 2
    whole, killed = ((place / name / "a" / "model.safetensors").read_bytes() for name in ("whole", "killed"))
    assert whole == killed


def test_what_cannot_be_adapted_is_refused(place: Path) -> None:
    write(place / "few", ["the cat"])
    with pytest.raises(InputError, match="holds fewer than two segments"):
        adapt(PARAMS, place / "few", place / "out")
    tokenizer = load_tokenizer(place / "encoder")
    tokenizer.mask_token = None
    tokenizer.save_pretrained(place / "encoder")
    with pytest.raises(ModelError, match=r"encoder: the tokenizer has no mask token\."):
        adapt(PARAMS, place / "segments", place / "out")
