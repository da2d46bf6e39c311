"""Synthetic pairs as they are read for training, and which of them validate."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy
import pyarrow
import pytest
import torch
from tiny_filler import save_tiny_filler

from pipeline.core.errors import InputError, ParamsError
from pipeline.core.models import load_tokenizer
from pipeline.core.records import PAIRS, SIGNAL_COLUMNS, signal_schema
from pipeline.core.seeds import generator
from pipeline.core.shards import shard_name, table_of, write_shard
from pipeline.metric.checkpoint import Head
from pipeline.metric.tasks import Scaling, tasks_of
from pipeline.pretrain.pretraining import PretrainParams, pretrain, read_labelled, scaled, split_by_segment
from pipeline.training.loop import Schedule

SCHEDULE = Schedule(
    steps=2, learning_rate=0.01, layer_decay=1.0, weight_decay=0.0, warmup_share=0.1, clip_norm=1.0, evaluate_every=1,
    save_every=1, seed=1,
)  # fmt: skip
PARAMS = PretrainParams(
    encoder="encoder",
    head=Head.ALIGNMENT,
    max_tokens=16,
    batch_pairs=2,
    dropout=0.0,
    standardise=True,
    weights=dict.fromkeys(SIGNAL_COLUMNS, 1.0),
    validation_share=0.3,
    validation_pairs=100,
    batch_tokens=64,
    schedule=SCHEDULE,
)


def write(folder: Path, shards: list[list[str]]) -> None:
    """Pairs with these ids, "<segment>/<number>", in shards, and a BLEU label for each: 0.0, 0.1, ..."""
    count = 0
    for index, ids in enumerate(shards):
        row = dict.fromkeys(PAIRS.names)
        text = {"reference": "the cat sat", "technique": "mask_fill", "dropped_words": 0}
        pairs = [{**row, **text, "pair_id": i, "segment_id": i.split("/")[0], "candidate": f"cat {i}"} for i in ids]
        labels = [{"pair_id": name, "bleu": (count + place) / 10} for place, name in enumerate(ids)]
        count += len(ids)
        write_shard(folder / "pairs" / shard_name(index), table_of(pairs, PAIRS))
        write_shard(folder / "label" / "bleu" / shard_name(index), table_of(labels, signal_schema("bleu")))


def read(folder: Path) -> Any:
    tokenizer = load_tokenizer(save_tiny_filler(folder / "encoder"))
    return read_labelled(folder / "pairs", folder / "label", tasks_of("only_bleu"), tokenizer, 16)


def test_shards_are_joined_with_their_labels(tmp_path: Path) -> None:
    write(tmp_path, [["a/1", "a/2"], [], ["b/1"]])
    data = read(tmp_path)
    assert data.segments.to_pylist() == ["a", "a", "b"]
    assert len(data.encoded) == 3
    numpy.testing.assert_allclose(data.targets, [[0.0], [0.1], [0.2]], atol=1e-7)
    assert data.targets.dtype == numpy.float32


def test_labels_of_other_pairs_are_refused(tmp_path: Path) -> None:
    write(tmp_path, [["a/1"], ["b/1"]])
    other = [{"pair_id": "b/9", "bleu": 0.5}]
    write_shard(tmp_path / "label" / "bleu" / shard_name(1), table_of(other, signal_schema("bleu")))
    with pytest.raises(InputError, match=r"part-00001\.parquet: does not label its shard of pairs, row for row\.$"):
        read(tmp_path)
    (tmp_path / "label" / "bleu" / shard_name(1)).unlink()
    with pytest.raises(InputError, match=r"label/bleu: does not label the pairs of .*, shard for shard\.$"):
        read(tmp_path)


def test_no_pairs_are_refused(tmp_path: Path) -> None:
    write(tmp_path, [[]])
    with pytest.raises(InputError, match=r"pairs: holds no pairs\.$"):
        read(tmp_path)


def held_names(segments: list[str], share: float, most: int) -> list[str]:
    train, held = split_by_segment(pyarrow.array(segments), share, most, seed=4)
    assert sorted([*train, *held]) == list(range(len(segments)))
    assert {segments[i] for i in train}.isdisjoint(segments[i] for i in held)
    return [segments[i] for i in held]


def test_whole_segments_are_held_out_by_the_seed_and_below_the_bound() -> None:
    names = [f"s{i}" for i in range(10)]
    segments = [name for name in reversed(names) for _ in range(3)]
    drawn = [names[i] for i in generator(4, "pretrain validation").permutation(10)]
    assert set(held_names(segments, 0.4, 100)) == set(drawn[:4])
    assert len(held_names(segments, 0.4, 100)) == 12
    assert set(held_names(segments, 0.4, 8)) == set(drawn[:2])  # 6 pairs; a third segment would make 9
    assert set(held_names(segments, 0.4, 9)) == set(drawn[:3])


def test_both_sides_get_a_segment_where_there_are_two() -> None:
    for share in (0.01, 0.99):
        assert len(held_names(["a", "b"], share, 1)) == 1
    assert held_names(["a", "a"], 0.5, 10) == []


def test_scaling_is_applied_column_by_column() -> None:
    found = scaled(numpy.array([[3.0, 1.0], [5.0, 0.0]], numpy.float32), Scaling((4.0, 0.0), (0.5, 1.0)))
    assert torch.equal(found, torch.tensor([[-2.0, 1.0], [2.0, 0.0]]))


def test_pretrain_counts_its_pairs_beside_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BLEURT_DEVICE", "cpu")
    save_tiny_filler(tmp_path / "encoder")
    write(tmp_path, [["a/1", "a/2", "b/1"], ["c/1", "d/1"]])
    params = dataclasses.replace(PARAMS, encoder="./encoder")
    pretrain(params, "only_bleu", tmp_path / "pairs", tmp_path / "label", tmp_path / "out")
    assert json.loads((tmp_path / "out/counts.json").read_text()) == {"rows_in": 5, "rows_out": 5, "dropped": {}}
    training = json.loads((tmp_path / "out/training.json").read_text())
    assert training["pairs"] + training["pairs_validation"] == 5 and training["pairs_validation"] in (1, 2)
    with pytest.raises(ParamsError, match=r"^pretrain\.max_tokens: must lie between 5 and "):
        pretrain(dataclasses.replace(params, max_tokens=4), "none", tmp_path, tmp_path, tmp_path / "none")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_pairs": 0}, "batch_pairs: must be at least 1, not 0."),
        ({"validation_pairs": 0}, "validation_pairs: must be at least 1, not 0."),
        ({"validation_share": 1.0}, "validation_share: must lie between 0 and 1, not 1.0."),
        ({"dropout": -0.1}, "dropout: must be at least 0 and below 1, not -0.1."),
        ({"weights": {**PARAMS.weights, "flag": -1.0}}, "weights.flag: must be 0 or more, not -1.0."),
        (
            {"weights": {"bleu": 1.0}},
            "weights: must name bleu, rouge, bertscore, backtranslation, entailment, flag, not ['bleu'].",
        ),
        ({"schedule": dataclasses.replace(SCHEDULE, steps=0)}, "schedule.steps: must be at least 1, not 0."),
    ],
)
def test_params_out_of_range_are_refused_by_key(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ParamsError) as caught:
        dataclasses.replace(PARAMS, **changes)
    assert str(caught.value) == f"pretrain.{message}"
