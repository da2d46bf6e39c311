"""Multi-task pre-training on synthetic pairs (paper, sections 4.2-4.3 and B.1)."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy
import pyarrow
import pyarrow.compute
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from pipeline.core import runtime
from pipeline.core.errors import InputError
from pipeline.core.models import check_max_tokens, load_tokenizer, locate
from pipeline.core.params import require, require_positive
from pipeline.core.records import PAIRS, SIGNAL_COLUMNS, signal_schema
from pipeline.core.seeds import generator
from pipeline.core.shards import list_shards, read_shard
from pipeline.metric.checkpoint import Head, new_metric, save_metric, save_targets
from pipeline.metric.pairs import EncodedPairs, encode_pairs, join
from pipeline.metric.prediction import outputs
from pipeline.metric.tasks import Scaling, Task, fit_scaling, multitask_loss, tasks_of
from pipeline.training.batches import BatchPlan
from pipeline.training.loop import History, Schedule
from pipeline.training.runs import finish, run, state_folder, write_counts, write_training


@dataclass(frozen=True)
class PretrainParams:
    """`weights` are the paper's gammas, one for each signal group.

    `validation_share` of the segments, with `validation_pairs` pairs at most, choose the best checkpoint.
    """

    encoder: str
    head: Head
    max_tokens: int
    batch_pairs: int
    dropout: float
    standardise: bool
    weights: dict[str, float]
    validation_share: float
    validation_pairs: int
    batch_tokens: int
    schedule: Schedule

    def __post_init__(self) -> None:
        require_positive("pretrain", self, "max_tokens", "batch_pairs", "validation_pairs", "batch_tokens")
        require(0 <= self.dropout < 1, "pretrain.dropout", "be at least 0 and below 1", self.dropout)
        share = self.validation_share
        require(0 < share < 1, "pretrain.validation_share", "lie between 0 and 1", share)
        groups = ", ".join(SIGNAL_COLUMNS)
        require(set(self.weights) == set(SIGNAL_COLUMNS), "pretrain.weights", f"name {groups}", sorted(self.weights))
        for group, weight in self.weights.items():
            require(weight >= 0, f"pretrain.weights.{group}", "be 0 or more", weight)
        self.schedule.check("pretrain.schedule")


@dataclass(frozen=True)
class LabelledPairs:
    """n pairs in tokens and their targets: `targets` is float32 (n, columns of the variant's tasks).

    `segments` holds n segment ids.
    """

    segments: pyarrow.Array
    encoded: EncodedPairs
    targets: numpy.ndarray


def read_labelled(
    pairs: Path, labels: Path, tasks: Sequence[Task], tokenizer: PreTrainedTokenizerBase, max_tokens: int
) -> LabelledPairs:
    """Tokenise the pairs and join them with the labels of `tasks`, one shard of text in memory at a time.

    No pairs, and labels that do not belong to them row for row, are input errors.
    """
    groups = list(dict.fromkeys(task.group for task in tasks))
    shards = list_shards(pairs)
    for group in groups:
        if len(list_shards(labels / group)) != len(shards):
            raise InputError(f"does not label the pairs of {pairs}, shard for shard", file=labels / group)
    segments, encoded, targets = [], [], []
    for shard in shards:
        table = read_shard(shard, PAIRS)
        blocks = [_label_columns(labels / group / shard.name, group, table.column("pair_id")) for group in groups]
        targets.append(numpy.concatenate(blocks, axis=1))
        segments.append(table.column("segment_id").combine_chunks())
        references, candidates = (table.column(name).to_pylist() for name in ("reference", "candidate"))
        encoded.append(encode_pairs(tokenizer, references, candidates, max_tokens))
    if not sum(map(len, encoded)):
        raise InputError("holds no pairs", file=pairs)
    return LabelledPairs(
        pyarrow.concat_arrays(segments), join([e for e in encoded if len(e)]), numpy.concatenate(targets)
    )


def _label_columns(file: Path, group: str, ids: pyarrow.ChunkedArray) -> NDArray[numpy.float32]:
    """The columns of one label shard, (rows, columns), checked against the pairs' ids."""
    table = read_shard(file, signal_schema(group))
    if not table.column("pair_id").equals(ids):
        raise InputError("does not label its shard of pairs, row for row", file=file)
    return numpy.stack([table.column(name).to_numpy() for name in table.column_names[1:]], axis=1)


def split_by_segment(
    segments: pyarrow.Array, share: float, most: int, seed: int
) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64]]:
    """Rows for training and for validation: all pairs of a segment fall on the same side.

    Validation gets `share` of the segments, drawn by `seed`, or fewer, so that they have at most `most` pairs; at least
    one segment stays on each side where there are two.
    """
    coded = segments.dictionary_encode()
    codes = coded.indices.to_numpy()
    names = pyarrow.compute.array_sort_indices(coded.dictionary).to_numpy()
    order = names[generator(seed, "pretrain validation").permutation(len(names))]
    wanted = min(max(round(len(names) * share), 1), len(names) - 1)
    pairs = numpy.cumsum(numpy.bincount(codes, minlength=len(names))[order])
    fitting = max(int(numpy.searchsorted(pairs, most, side="right")), 1)
    held = numpy.zeros(len(names), dtype=bool)
    held[order[: min(wanted, fitting)]] = True
    return numpy.flatnonzero(~held[codes]), numpy.flatnonzero(held[codes])


def scaled(targets: NDArray[numpy.float32], scaling: Scaling) -> torch.Tensor:
    """`targets` (rows, columns) with `scaling` applied in float64, as a float32 tensor that shares their memory."""
    for column, (mean, deviation) in enumerate(zip(scaling.mean, scaling.deviation, strict=True)):
        targets[:, column] = (targets[:, column].astype(numpy.float64) - mean) / deviation
    return torch.from_numpy(targets)


def pretrain(params: PretrainParams, variant: str, pairs: Path, labels: Path, out: Path) -> None:
    """Train `variant` and write its checkpoint to `out`; the variant `none` is the encoder as it came."""
    tasks = tasks_of(variant)
    columns = [column for task in tasks for column in task.columns]
    model = new_metric(params.encoder, params.head, columns or ["score"], params.dropout, params.schedule.seed)
    tokenizer = load_tokenizer(locate(params.encoder))
    check_max_tokens("pretrain.max_tokens", params.max_tokens, model.config, tokenizer)
    if not tasks:
        if os.environ.get("RANK", "0") != "0":  # one process writes
            return
        save_metric(model, tokenizer, out)
        write_training(out, History(), {"variant": variant, "pairs": 0})
        write_counts(out, 0, {})
        return
    data = read_labelled(pairs, labels, tasks, tokenizer, params.max_tokens)
    encoded = data.encoded
    train, held = split_by_segment(
        data.segments, params.validation_share, params.validation_pairs, params.schedule.seed
    )
    if not len(held):
        raise InputError("holds pairs of one segment alone; validation needs another", file=pairs)
    scaling = fit_scaling(data.targets[train], tasks, params.standardise)
    targets = scaled(data.targets, scaling)
    plan = BatchPlan(encoded.lengths[train], params.batch_pairs, params.schedule.seed)
    device = runtime.device()
    model.to(device)

    def loss(model: torch.nn.Module, rows: list[int]) -> torch.Tensor:
        chosen = train[rows]
        predicted = model(**encoded.batch(chosen, device)).logits
        return multitask_loss(predicted, targets[chosen].to(device), tasks, params.weights)

    held_pairs, held_targets = encoded.take(held), targets[held]

    def evaluate(model: torch.nn.Module) -> float:
        guess = torch.tensor(outputs(model, held_pairs, params.batch_tokens))
        return -float(multitask_loss(guess, held_targets, tasks, params.weights))

    groups = [labels / group for group in dict.fromkeys(task.group for task in tasks)]
    state = state_folder("pipeline.pretrain.__main__", params, [locate(params.encoder), pairs, *groups], variant)
    history = run(model, loss, plan.rows, params.schedule, evaluate, state, out)
    if history is None:
        return
    assert isinstance(model, PreTrainedModel)
    save_metric(model, tokenizer, out)
    save_targets(out, columns, scaling)
    facts = {"variant": variant, "pairs": len(train), "pairs_validation": len(held), "truncated": encoded.truncated}
    write_training(out, history, {**facts, "padding_share": plan.padding_share})
    write_counts(out, len(encoded), {})
    finish(state)
