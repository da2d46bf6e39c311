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

from pipeline.core import runtime
from pipeline.core.errors import InputError, ParamsError
from pipeline.core.models import load_tokenizer
from pipeline.core.params import from_mapping
from pipeline.core.records import PAIRS
from pipeline.core.shards import generator, shard_name, table_of, write_shard
from pipeline.metric.checkpoint import Head, load_metric, read_targets
from pipeline.metric.tasks import Loss, Scaling
from pipeline.pretrain.pretraining import PretrainParams, pretrain
from pipeline.pretrain.reading import read_labelled, scaled, signal_columns, split_by_segment
from pipeline.training import loop
from pipeline.training.schedule import Schedule

SIGNALS = ("bleu", "flag")

SCHEDULE = Schedule(
    steps=2, learning_rate=0.01, layer_decay=1.0, weight_decay=0.0, warmup_share=0.1, clip_norm=1.0, evaluate_every=1,
    save_every=1, seed=1,
)  # fmt: skip
PARAMS = PretrainParams(
    encoder="encoder",
    continue_from=None,
    head=Head.ALIGNMENT,
    max_tokens=16,
    batch_pairs=2,
    dropout=0.0,
    adapter=None,
    standardise=True,
    weights={"bleu": 1.0, "flag": 0.5},
    losses={"bleu": Loss.JOINT, "flag": Loss.DISTRIBUTION},
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
        write_labels(folder, "bleu", index, labels)
        flags = [{"pair_id": name, "flag_a": 0.25, "flag_b": 0.75} for name in ids]
        write_labels(folder, "flag", index, flags, ("flag_a", "flag_b"))


def write_labels(
    folder: Path, signal: str, index: int, rows: list[dict[str, Any]], columns: tuple[str, ...] = ("bleu",)
) -> None:
    fields = [pyarrow.field(name, pyarrow.float32(), nullable=False) for name in columns]
    schema = pyarrow.schema([pyarrow.field("pair_id", pyarrow.string(), nullable=False), *fields])
    write_shard(folder / "label" / signal / shard_name(index), table_of(rows, schema))


def read(folder: Path, *signals: str) -> Any:
    tokenizer = load_tokenizer(save_tiny_filler(folder / "encoder"))
    columns = signal_columns(folder / "label", signals or ("bleu",))
    return read_labelled(folder / "pairs", folder / "label", columns, tokenizer, 16)


def test_shards_are_joined_with_their_labels(tmp_path: Path) -> None:
    write(tmp_path, [["a/1", "a/2"], [], ["b/1"]])
    data = read(tmp_path)
    assert data.segments.to_pylist() == ["a", "a", "b"]
    assert len(data.encoded) == 3
    numpy.testing.assert_allclose(data.labels, [[0.0], [0.1], [0.2]], atol=1e-7)
    assert data.labels.dtype == numpy.float32


def test_columns_are_those_of_the_labels_in_the_order_of_the_signals(tmp_path: Path) -> None:
    write(tmp_path, [["a/1"], ["b/1"]])
    assert signal_columns(tmp_path / "label", ["flag", "bleu"]) == {"flag": ("flag_a", "flag_b"), "bleu": ("bleu",)}
    numpy.testing.assert_allclose(read(tmp_path, "flag", "bleu").labels, [[0.25, 0.75, 0.0], [0.25, 0.75, 0.1]])
    numpy.testing.assert_allclose(read(tmp_path, "bleu", "flag").labels, [[0.0, 0.25, 0.75], [0.1, 0.25, 0.75]])


def test_labels_that_are_not_float32_are_refused(tmp_path: Path) -> None:
    write(tmp_path, [["a/1"], ["b/1"]])
    table = pyarrow.table({"pair_id": ["b/1"], "bleu": pyarrow.array([0.5], pyarrow.float64())})
    write_shard(tmp_path / "label" / "bleu" / shard_name(1), table)
    with pytest.raises(InputError, match=r"part-00001\.parquet: column bleu must be float, not double\.$"):
        read(tmp_path)


def test_labels_of_other_pairs_are_refused(tmp_path: Path) -> None:
    write(tmp_path, [["a/1"], ["b/1"]])
    other = [{"pair_id": "b/9", "bleu": 0.5}]
    write_labels(tmp_path, "bleu", 1, other)
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
    train, held = split_by_segment(pyarrow.array(segments).dictionary_encode(), share, most, seed=4)
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


def project(folder: Path) -> PretrainParams:
    save_tiny_filler(folder / "encoder")
    write(folder, [["a/1", "a/2", "b/1"], ["c/1", "d/1"]])
    return dataclasses.replace(PARAMS, encoder="./encoder")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BLEURT_DEVICE", "cpu")
    return tmp_path


def train(params: PretrainParams, folder: Path, out: str, variant: str = "all") -> dict[str, bytes]:
    """Pre-train `variant`: every file of its output and its bytes."""
    pretrain(params, SIGNALS, variant, folder / "pairs", folder / "label", folder / out)
    return {str(f.relative_to(folder / out)): f.read_bytes() for f in (folder / out).rglob("*") if f.is_file()}


def test_pretrain_counts_its_pairs_beside_the_model(here: Path) -> None:
    params = project(here)
    files = train(params, here, "out", "only_bleu")
    assert json.loads(files["counts.json"]) == {"rows_in": 5, "rows_out": 5, "dropped": {}}
    training = json.loads(files["training.json"])
    assert training["pairs"] + training["pairs_validation"] == 5 and training["pairs_validation"] in (1, 2)
    with pytest.raises(ParamsError, match=r"^pretrain\.max_tokens: must lie between 5 and "):
        pretrain(dataclasses.replace(params, max_tokens=4), SIGNALS, "none", here, here, here / "none")


def test_two_runs_leave_the_same_bytes_and_what_they_took_stands_in_the_notes(here: Path) -> None:
    params = project(here)
    files = train(params, here, "one")
    assert files == train(params, here, "two")
    targets = read_targets(here / "one")
    assert [(task.signal, task.columns) for task in targets.tasks] == [
        ("bleu", ("bleu",)),
        ("flag", ("flag_a", "flag_b")),
    ]
    noted = runtime.notes()[here / "two"]
    assert set(noted) == {"training_seconds", "device", "precision"} and noted["device"] == "cpu"


def test_pre_training_goes_on_from_a_checkpoint_but_the_variant_none_keeps_the_encoder(here: Path) -> None:
    params = project(here)
    train(params, here, "first")
    slow = dataclasses.replace(SCHEDULE, learning_rate=1e-9)
    more = dataclasses.replace(params, continue_from="./first", schedule=slow)
    weights = "model.safetensors"
    assert train(more, here, "none", "none")[weights] == train(params, here, "plain", "none")[weights]
    train(more, here, "second")
    went_on, first = (load_metric(here / name) for name in ("second", "first"))
    for name, weight in first.base_model.state_dict().items():
        assert torch.allclose(went_on.base_model.state_dict()[name], weight, atol=1e-6)


def test_a_run_that_was_killed_leaves_the_bytes_of_one_that_was_not(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = project(here)
    params = dataclasses.replace(params, dropout=0.2, schedule=dataclasses.replace(SCHEDULE, steps=7, save_every=2))
    whole = train(params, here, "whole")
    update = loop.update

    def killed(*arguments: Any) -> float:
        if arguments[5] == 5:
            raise KeyboardInterrupt
        return update(*arguments)

    monkeypatch.setattr(loop, "update", killed)
    with pytest.raises(KeyboardInterrupt):
        train(params, here, "resumed")
    monkeypatch.setattr(loop, "update", update)
    assert train(params, here, "resumed") == whole


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_pairs": 0}, "batch_pairs: must be at least 1, not 0."),
        ({"validation_pairs": 0}, "validation_pairs: must be at least 1, not 0."),
        ({"validation_share": 0.0}, "validation_share: must be above 0, not 0.0."),
        ({"validation_share": 1.0}, "validation_share: must be below 1, not 1.0."),
        ({"dropout": -0.1}, "dropout: must be at least 0, not -0.1."),
        ({"dropout": 1.0}, "dropout: must be below 1, not 1.0."),
        ({"weights": {**PARAMS.weights, "flag": -1.0}}, "weights.flag: must be at least 0, not -1.0."),
        ({"losses": {"bleu": "both"}}, "losses.bleu: must be 'joint', 'each' or 'distribution', not 'both'."),
        ({"schedule": dataclasses.asdict(SCHEDULE) | {"steps": 0}}, "schedule.steps: must be at least 1, not 0."),
    ],
)
def test_params_out_of_range_are_refused_by_key(changes: dict[str, Any], message: str) -> None:
    assert from_mapping(dataclasses.asdict(PARAMS), PretrainParams, "pretrain") == PARAMS
    with pytest.raises(ParamsError) as caught:
        from_mapping(dataclasses.asdict(PARAMS) | changes, PretrainParams, "pretrain")
    assert str(caught.value) == f"pretrain.{message}"


def test_weights_and_losses_name_all_signals() -> None:
    PARAMS.check_signals(("flag", "bleu"))
    for changes, message in (
        ({"weights": {"bleu": 1.0}}, r"pretrain\.weights: must name bleu, flag, not \['bleu'\]\."),
        ({"losses": {"flag": Loss.JOINT, "rouge": Loss.JOINT}}, r"losses: must name bleu, flag, not .*'rouge'\]\."),
    ):
        with pytest.raises(ParamsError, match=message):
            dataclasses.replace(PARAMS, **changes).check_signals(SIGNALS)
