"""Fine-tuning on human ratings: squared error on the rating (paper, section 3), best checkpoint on validation tau."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from pipeline.core import runtime
from pipeline.core.errors import InputError
from pipeline.core.models import check_max_tokens, load_tokenizer
from pipeline.core.shards import generator
from pipeline.finetune.lessons import FinetuneParams, read_rated, with_graded
from pipeline.metric.checkpoint import head_of, keep_heads, save_metric, with_outputs
from pipeline.metric.pairs import EncodedPairs, encode_pairs
from pipeline.metric.prediction import head_inputs, outputs
from pipeline.statistics.correlation import kendall
from pipeline.training.loop import History, process_group
from pipeline.training.runs import finish, note_training, run, state_folder, write_counts, write_training
from pipeline.training.schedule import BatchPlan


def mean_kendall(human: numpy.ndarray, metric: numpy.ndarray) -> float:
    """Mean over aspects of Kendall's tau-b between the columns of two (pairs, aspects) arrays; higher is better.

    Pairs without a rating (NaN) and aspects without a tau (fewer than two different values) are left out. NaN if no
    aspect has a tau. Ratings [1, 2, 3] and scores [1, 2, 0] agree on one of three pairs of rows: tau is -1/3.
    """
    taus = []
    for column in range(human.shape[1]):
        known = ~numpy.isnan(human[:, column])
        taus.append(kendall(human[known, column], metric[known, column]))
    return float(numpy.nanmean(taus)) if not numpy.isnan(taus).all() else math.nan


def orders_something(ratings: numpy.ndarray) -> bool:
    """Whether some column of (pairs, aspects) holds two different ratings; without that no tau is defined."""
    return any(len(numpy.unique(column[~numpy.isnan(column)])) > 1 for column in ratings.T)


def rating_loss(predicted: torch.Tensor, ratings: torch.Tensor) -> torch.Tensor:
    """Mean squared error over the ratings that are known (not NaN); both tensors are (batch, aspects)."""
    known = ~torch.isnan(ratings)
    return torch.nn.functional.mse_loss(predicted[known], ratings[known])


def finetune(params: FinetuneParams, start: Path, ratings: Path, graded: Path, out: Path) -> None:
    """Fine-tune the checkpoint `start` on the training rows of `ratings` and write the best one to `out`.

    With several `members` the best checkpoint of each is averaged, weight by weight.
    """
    tokenizer = load_tokenizer(start)
    model = with_outputs(start, params.aspects, params.dropout, params.schedule.seed)
    check_max_tokens("finetune.max_tokens", params.max_tokens, model.config, tokenizer)
    train = read_rated(ratings, "train", params.aspects, params.ratings, params.schedule.seed)
    held = read_rated(ratings, "validation", params.aspects)
    if not orders_something(held.ratings):
        raise InputError("validation needs at least two different ratings to choose the best checkpoint", file=ratings)
    lessons = with_graded(train, graded, params)
    encoded = encode_pairs(tokenizer, lessons.references, lessons.candidates, params.max_tokens)
    held_encoded = encode_pairs(tokenizer, held.references, held.candidates, params.max_tokens)
    targets = torch.tensor(lessons.targets)
    device = runtime.device()
    model.to(device)
    if params.probe is not None:
        rows_of_pass = encoded.take(lessons.slots)
        probe(model, rows_of_pass, lessons.targets[lessons.slots], params.probe, params.batch_tokens)

    def loss(model: torch.nn.Module, rows: list[int]) -> torch.Tensor:
        chosen = lessons.slots[rows]
        return rating_loss(model(**encoded.batch(chosen, device)).logits, targets[chosen].to(device))

    def evaluate(_: torch.nn.Module) -> float:
        return mean_kendall(held.ratings, outputs(model, held_encoded, params.batch_tokens))

    inputs = [start / "model.safetensors", ratings, *([graded] if params.graded_share else [])]
    state = state_folder("finetune", start.name, inputs, params)
    lengths = encoded.lengths[lessons.slots]
    histories = _train_members(model, params, lengths, loss, evaluate, state, out)
    if histories is None:
        return
    history, facts = histories[0], dict[str, Any]()
    if params.members > 1:
        facts["members"] = [one.best_score for one in histories]
        history.best_score = evaluate(model)
    save_metric(model, tokenizer, out)
    keep_heads(start, out)
    facts |= {"pairs": len(train.references), "pairs_validation": len(held.candidates)}
    if params.graded_share:
        share = float((lessons.slots >= len(train.references)).mean())
        facts |= {"graded": lessons.rows - lessons.dropped, "graded_share": round(share, 4)}
    padding = BatchPlan(lengths, params.batch_pairs, params.schedule.seed).padding_share
    write_training(out, history, {**facts, "truncated": encoded.truncated, "padding_share": padding})
    note_training(out, sum(one.seconds for one in histories))
    left = {"graded candidate not drawn": lessons.dropped} if lessons.dropped else {}
    write_counts(out, train.rows + held.rows + lessons.rows, {**train.dropped, **held.dropped, **left})
    finish(state)


def _train_members(
    model: PreTrainedModel,
    params: FinetuneParams,
    lengths: NDArray[numpy.int64],
    loss: Callable[[torch.nn.Module, list[int]], torch.Tensor],
    evaluate: Callable[[torch.nn.Module], float],
    state: Path,
    out: Path,
) -> list[History] | None:
    """Train every member from the weights that `model` has; it ends with the average. None if another process writes.

    `lengths` (rows of a pass,) are in tokens. The curves of the first member go to `out`; the others leave none.
    """
    fresh = {name: weight.clone() for name, weight in model.state_dict().items()}
    histories, members = list[History](), []
    with process_group():
        for number in range(params.members):
            model.load_state_dict(fresh)
            schedule = dataclasses.replace(params.schedule, seed=member_seed(params.schedule.seed, number))
            plan = BatchPlan(lengths, params.batch_pairs, schedule.seed)
            place = state / str(number)
            history = run(model, loss, plan.rows, schedule, evaluate, place, place if number else out)
            histories += [history] if history is not None else []
            members.append({name: weight.clone() for name, weight in model.state_dict().items()})
    if params.members > 1:
        model.load_state_dict(average(members))
    return histories or None


def probe(
    model: PreTrainedModel, pairs: EncodedPairs, ratings: numpy.ndarray, penalty: float, batch_tokens: int
) -> None:
    """Set the last layer of `model` to the ridge regression of `ratings` (pairs, aspects), NaN for an unrated aspect.

    Kumar et al. 2022 (linear probing, then fine-tuning); the paper starts from a fresh layer. docs/log.md has results.
    All other weights stay, and so does the layer's row of an aspect without any rating. What the layer reads is
    standardised first. `penalty` is the factor of the squared weights; a penalty of n weighs as much as n pairs.
    """
    layer = head_of(model.eval())
    features = head_inputs(model, pairs, batch_tokens).astype(numpy.float64)
    mean, deviation = features.mean(0), features.std(0) + 1e-6
    standard = (features - mean) / deviation
    for aspect in range(ratings.shape[1]):
        known = ~numpy.isnan(ratings[:, aspect])
        if not known.any():
            continue
        x, y = standard[known], ratings[known, aspect].astype(numpy.float64)
        centre = x.mean(0)
        gram = (x - centre).T @ (x - centre) + penalty * numpy.eye(x.shape[1])
        weights = numpy.linalg.solve(gram, (x - centre).T @ (y - y.mean())) / deviation
        with torch.no_grad():
            layer.weight[aspect] = torch.tensor(weights, dtype=layer.weight.dtype)
            layer.bias[aspect] = float(y.mean() - weights @ (mean + deviation * centre))


def member_seed(seed: int, number: int) -> int:
    """The seed of member `number`: `seed` itself for the first. Runs with different seeds have no member in common."""
    return int(generator(seed, "member", number).integers(2**31)) if number else seed


def average(members: Sequence[Mapping[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """The mean of every weight over models that started from the same weights (Wortsman et al. 2022, "model soups")."""
    return {
        name: torch.stack([member[name] for member in members]).mean(0) if weight.is_floating_point() else weight
        for name, weight in members[0].items()
    }
