"""Multi-task pre-training on synthetic pairs (paper, sections 4.2-4.3 and B.1)."""

import os
from collections.abc import Sequence
from pathlib import Path

import torch

from pipeline.core import runtime
from pipeline.core.errors import InputError, ParamsError
from pipeline.core.models import check_max_tokens, load_tokenizer, locate
from pipeline.core.params import AtLeastOne, Between, ModelName, NotNegative, ShareBelowOne, params
from pipeline.metric.adapter import adapted, merged
from pipeline.metric.checkpoint import Head, new_metric, save_metric, save_targets
from pipeline.metric.prediction import outputs
from pipeline.metric.tasks import Loss, Targets, chosen_signals, columns_of, fit_scaling, multitask_loss, tasks_of
from pipeline.pretrain.reading import read_labelled, scaled, signal_columns, split_by_segment
from pipeline.training.loop import History, process_group
from pipeline.training.runs import finish, note_training, run, state_folder, write_counts, write_training
from pipeline.training.schedule import BatchPlan, Schedule


@params
class PretrainParams:
    """`losses` says how each signal is learned, `weights` is the paper's gamma of each.

    `continue_from`: a pre-trained encoder, from which every variant but `none` goes on; null: all start from `encoder`.

    `validation_share` of the segments, with `validation_pairs` pairs at most, choose the best checkpoint. `adapter`:
    rank of the matrices that are trained in place of the encoder's weights; null trains the weights.
    """

    encoder: ModelName
    continue_from: ModelName | None
    head: Head
    adapter: AtLeastOne | None
    max_tokens: AtLeastOne
    batch_pairs: AtLeastOne
    dropout: ShareBelowOne
    standardise: bool
    weights: dict[str, NotNegative]
    losses: dict[str, Loss]
    validation_share: Between
    validation_pairs: AtLeastOne
    batch_tokens: AtLeastOne
    schedule: Schedule

    def check_signals(self, signals: Sequence[str]) -> None:
        """A ParamsError unless `weights` and `losses` name all `signals` of params.yaml; they may name others."""
        for key, named in (("weights", self.weights), ("losses", self.losses)):
            if not set(named) >= set(signals):
                raise ParamsError(f"pretrain.{key}: must name {', '.join(signals)}, not {sorted(named)}.")


def pretrain(
    params: PretrainParams, signals: Sequence[str], variant: str, pairs: Path, labels: Path, out: Path
) -> None:
    """Write the checkpoint of `variant` to `out`: the encoder, trained on those of `signals` that the variant learns.

    The variant `none` learns nothing: its checkpoint is the unchanged encoder under a fresh head.
    """
    params.check_signals(signals)
    columns = signal_columns(labels, chosen_signals(variant, signals))
    tasks = tasks_of(columns, params.losses)
    named = columns_of(tasks) or ("score",)
    start = (params.continue_from if tasks else None) or params.encoder
    model = new_metric(start, params.head, named, params.dropout, params.schedule.seed)
    tokenizer = load_tokenizer(locate(start))
    check_max_tokens("pretrain.max_tokens", params.max_tokens, model.config, tokenizer)
    if not tasks:
        if os.environ.get("RANK", "0") == "0":  # one process writes
            save_metric(model, tokenizer, out)
            write_training(out, History(), {"variant": variant, "pairs": 0})
            write_counts(out, 0, {})
        return
    data = read_labelled(pairs, labels, columns, tokenizer, params.max_tokens)
    train, held = split_by_segment(
        data.segments, params.validation_share, params.validation_pairs, params.schedule.seed
    )
    if not len(held):
        raise InputError("holds pairs of only one segment; validation needs another", file=pairs)
    scaling = fit_scaling(data.labels[train], tasks, params.standardise)
    targets = scaled(data.labels, scaling)
    plan = BatchPlan(data.encoded.lengths[train], params.batch_pairs, params.schedule.seed)
    device = runtime.device()
    runtime.release_memory()
    adapted(model, params.adapter, params.schedule.seed)
    model.to(device)

    def loss(model: torch.nn.Module, rows: list[int]) -> torch.Tensor:
        chosen = train[rows]
        predicted = model(**data.encoded.batch(chosen, device)).logits
        return multitask_loss(predicted, targets[chosen].to(device), tasks, params.weights)

    def evaluate(_: torch.nn.Module) -> float:
        """Minus the loss of the held-out pairs; each process of torchrun computes its share of them."""
        runtime.release_memory()
        with process_group() as group:
            every = list(range(len(held)))
            mine = held[group.share(every)]
            pairs = data.encoded.take(mine)
            guess = torch.tensor(outputs(model, pairs, params.batch_tokens, runtime.precision(training=True)))
            value = float(multitask_loss(guess, targets[mine], tasks, params.weights))
            return -group.mean(group.weight(every) * value)

    inputs = [locate(start), pairs, *(labels / signal for signal in columns)]
    state = state_folder("pretrain", variant, inputs, params, tasks)
    history = run(model, loss, plan.rows, params.schedule, evaluate, state, out)
    if history is None:
        return
    merged(model)
    save_metric(model, tokenizer, out)
    save_targets(out, Targets(tasks, scaling))
    facts = {"variant": variant, "pairs": len(train), "pairs_validation": len(held)}
    facts |= {"truncated": data.encoded.truncated, "padding_share": plan.padding_share}
    write_training(out, history, facts)
    note_training(out, history.seconds)
    write_counts(out, len(data.encoded), {})
    finish(state)
