"""Multi-task pre-training on synthetic pairs (paper, sections 4.2-4.3 and B.1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy
import torch
from transformers import PreTrainedModel

from pipeline.core import runtime
from pipeline.core.errors import InputError
from pipeline.core.records import PAIRS, signal_schema
from pipeline.core.seeds import generator
from pipeline.core.shards import read_folder
from pipeline.model.checkpoint import load_tokenizer, new_metric, save_metric, save_targets
from pipeline.model.locate import locate
from pipeline.model.pairs import encode_pairs
from pipeline.model.predict import outputs
from pipeline.model.targets import Task, fit_scaling, multitask_loss, tasks_of
from pipeline.training.batching import BatchPlan
from pipeline.training.loop import History, Schedule
from pipeline.training.runs import finish, run, state_folder, write_training


@dataclass(frozen=True)
class PretrainParams:
    """`weights` are the paper's gammas, one for each signal group; `validation_share` of segments choose the best."""

    encoder: str
    max_tokens: int
    batch_pairs: int
    dropout: float
    standardise: bool
    weights: dict[str, float]
    validation_share: float
    batch_tokens: int
    schedule: Schedule


@dataclass(frozen=True)
class SyntheticPairs:
    """Pairs and their targets: `targets` is float32 (pairs, columns of the variant's tasks)."""

    segments: list[str]
    references: list[str]
    candidates: list[str]
    targets: numpy.ndarray


def read_labelled(pairs: Path, labels: Path, tasks: Sequence[Task]) -> SyntheticPairs:
    """Join the pairs with the labels of `tasks`; shards that do not belong together are an input error."""
    table = read_folder(pairs, PAIRS)
    ids = table.column("pair_id").to_pylist()
    blocks = []
    for group in dict.fromkeys(task.group for task in tasks):
        label = read_folder(labels / group, signal_schema(group))
        if label.column("pair_id").to_pylist() != ids:
            raise InputError(f"does not label the pairs of {pairs}, row for row", file=labels / group)
        blocks += [label.column(name).to_numpy() for name in label.column_names[1:]]
    return SyntheticPairs(
        table.column("segment_id").to_pylist(),
        table.column("reference").to_pylist(),
        table.column("candidate").to_pylist(),
        numpy.stack(blocks, axis=1).astype(numpy.float32),
    )


def split_by_segment(segments: Sequence[str], share: float, seed: int) -> tuple[list[int], list[int]]:
    """Rows for training and for validation: all pairs of a segment fall on the same side."""
    names = sorted(set(segments))
    order = generator(seed, "pretrain validation").permutation(len(names))
    held = {names[i] for i in order[: round(len(names) * share)]}
    train = [i for i, name in enumerate(segments) if name not in held]
    return train, [i for i, name in enumerate(segments) if name in held]


def pretrain(params: PretrainParams, variant: str, pairs: Path, labels: Path, out: Path) -> None:
    """Train `variant` and write its checkpoint to `out`; the variant `none` is the encoder as it came."""
    tasks = tasks_of(variant)
    columns = [column for task in tasks for column in task.columns]
    model = new_metric(params.encoder, columns or ["score"], params.dropout, params.schedule.seed)
    tokenizer = load_tokenizer(locate(params.encoder))
    if not tasks:
        save_metric(model, tokenizer, out)
        write_training(out, History(), {"variant": variant, "pairs": 0})
        return
    data = read_labelled(pairs, labels, tasks)
    encoded = encode_pairs(tokenizer, data.references, data.candidates, params.max_tokens)
    train, held = split_by_segment(data.segments, params.validation_share, params.schedule.seed)
    scaling = fit_scaling(data.targets[train], tasks, params.standardise)
    targets = torch.tensor((data.targets - numpy.array(scaling.mean)) / numpy.array(scaling.deviation)).float()
    plan = BatchPlan([len(encoded.ids[i]) for i in train], params.batch_pairs, params.schedule.seed)
    device = runtime.device()
    model.to(device)

    def loss(model: torch.nn.Module, rows: list[int]) -> torch.Tensor:
        chosen = [train[i] for i in rows]
        predicted = model(**encoded.batch(chosen, device)).logits
        return multitask_loss(predicted, targets[chosen].to(device), tasks, params.weights)

    held_pairs = encode_pairs(
        tokenizer, [data.references[i] for i in held], [data.candidates[i] for i in held], params.max_tokens
    )

    def evaluate(model: torch.nn.Module) -> float:
        guess = torch.tensor(outputs(model, held_pairs, params.batch_tokens))
        return -float(multitask_loss(guess, targets[held], tasks, params.weights))

    groups = [labels / group for group in dict.fromkeys(task.group for task in tasks)]
    state = state_folder("pipeline.stages.pretrain", params, [locate(params.encoder), pairs, *groups], variant)
    history = run(model, loss, plan.rows, params.schedule, evaluate, state, out)
    if history is None:
        return
    assert isinstance(model, PreTrainedModel)
    save_metric(model, tokenizer, out)
    save_targets(out, columns, scaling)
    facts = {"variant": variant, "pairs": len(train), "pairs_validation": len(held), "truncated": encoded.truncated}
    write_training(out, history, {**facts, "padding_share": plan.padding_share})
    finish(state)
