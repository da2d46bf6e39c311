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
from pipeline.core.models import check_max_tokens, locate
from pipeline.core.shards import generator
from pipeline.finetune.grid import Examples, Found, Score, best_perceptron
from pipeline.finetune.heads import Encoder, System, freeze, new_system
from pipeline.finetune.learner import Learner
from pipeline.finetune.lessons import FinetuneParams, Lessons, RatedPairs, lessons_of, read_rated
from pipeline.metric.adapter import adapted, merged
from pipeline.metric.beside import beside_of
from pipeline.metric.checkpoint import head_of, keep_heads, save_metric, start_from
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


def finetune(params: FinetuneParams, start: Path, ratings: Path, graded: Path, out: Path) -> None:
    """Fine-tune the checkpoint `start` on the training rows of `ratings` and write the best one to `out`.

    With several `members` the best checkpoint of each is averaged, weight by weight.
    """
    shape = None if params.has_grid else params.regressor.shapes[0]
    model, tokenizer = new_system(params, start, params.aspects, shape)
    beside = beside_of(model.config, tokenizer)
    check_max_tokens("finetune.max_tokens", params.max_tokens, model.config, tokenizer)
    chosen: dict[str, Any] = {
        "beside": beside,
        "pairs": params.language_pairs,
        "without": params.without_language_pairs,
    }
    train = read_rated(ratings, "train", params.aspects, params.ratings, params.schedule.seed, **chosen)
    held = limited(read_rated(ratings, "validation", params.aspects, **chosen), params)
    if not orders_something(held.ratings):
        raise InputError("validation needs at least two different ratings to choose the best checkpoint", file=ratings)
    lessons = lessons_of(train, graded, params)
    encoded = encode_pairs(tokenizer, lessons.references, lessons.candidates, params.max_tokens)
    held_encoded = encode_pairs(tokenizer, held.references, held.candidates, params.max_tokens)
    device = runtime.device()
    if params.start is not None:
        start_from(model, start, params.start)
    model.to(device)
    if params.probe is not None:
        rows_of_pass = encoded.take(lessons.slots)
        probe(model, rows_of_pass, lessons.targets[lessons.slots], params.probe, params.batch_tokens)

    def agreement(scores: numpy.ndarray) -> float:
        return validation_kendall(held, params.own_scale, scores)

    def evaluate(_: torch.nn.Module) -> float:
        return agreement(outputs(model, held_encoded, params.batch_tokens, runtime.precision(training=True)))

    inputs = [start / "model.safetensors", ratings, *([graded] if params.graded_share else [])]
    inputs += [locate(name) for name in params.regressor.encoders if params.head is System.REGRESSOR]
    state = state_folder("finetune", start.name, inputs, params)
    lengths = encoded.lengths[lessons.slots]
    facts = dict[str, Any]()
    if params.has_grid:
        found = _train_grid(model, params, lessons, encoded, held_encoded, agreement, state, out)
        if found is None:
            return
        model, _ = new_system(params, start, params.aspects, found.shape)
        model.load_state_dict(found.weights, strict=False)
        histories, facts["shapes"] = [found.history], found.scores
    else:
        trained = _train_members(model, params, lessons, encoded, evaluate, state, out)
        if trained is None:
            return
        histories, learned = trained
        if params.own_scale:
            facts["scales"] = learned
    history = histories[0]
    if params.members > 1:
        facts["members"] = [one.best_score for one in histories]
        history.best_score = evaluate(model)
    save_metric(model, tokenizer, out)
    if params.head is System.KEPT and not params.reads.source:  # it predicts signals of a reference
        keep_heads(start, out)
    facts |= {"pairs": len(train.references), "pairs_validation": len(held.candidates)}
    if params.shares:
        facts |= {"graded": lessons.graded, "shares": dict(params.shares)}
    padding = BatchPlan(lengths, params.batch_pairs, params.schedule.seed).padding_share
    write_training(out, history, {**facts, "truncated": encoded.truncated, "padding_share": padding})
    note_training(out, sum(one.seconds for one in histories))
    write_counts(out, train.rows + held.rows + lessons.graded, {**train.dropped, **held.dropped})
    finish(state)


def groups_of(corpora: Sequence[str], apart: Sequence[str]) -> NDArray[numpy.str_]:
    """Name of the group of every row: its corpus if that is one of `apart`, else the empty name."""
    return numpy.array([corpus if corpus in apart else "" for corpus in corpora])


def limited(rated: RatedPairs, params: FinetuneParams) -> RatedPairs:
    """At most `params.validation_pairs` pairs of each group of `groups_of`, drawn by the seed; the rest is counted."""
    groups, chosen = groups_of(rated.corpora, params.own_scale), list[int]()
    for group in sorted(set(groups.tolist())):
        places = numpy.flatnonzero(groups == group)
        drawn = generator(params.schedule.seed, "validation", group).permutation(places)
        chosen += (drawn if params.validation_pairs is None else drawn[: params.validation_pairs]).tolist()
    rows = sorted(chosen)
    left = {"validation pair not drawn": len(groups) - len(rows)} if len(rows) < len(groups) else {}
    return RatedPairs(
        [rated.references[row] for row in rows],
        [rated.candidates[row] for row in rows],
        rated.ratings[rows],
        [rated.corpora[row] for row in rows],
        [rated.language_pairs[row] for row in rows],
        rated.rows,
        rated.dropped | left,
    )


def validation_kendall(held: RatedPairs, apart: Sequence[str], metric: numpy.ndarray) -> float:
    """Mean over the groups of `groups_of`, whose ratings can be compared, of `_by_language`; higher is better.

    `metric`: scores of `held` (pairs, aspects). NaN if no group has a tau.
    """
    groups, pairs = groups_of(held.corpora, apart), numpy.array(held.language_pairs)
    places = [numpy.flatnonzero(groups == group) for group in sorted(set(groups.tolist()))]
    taus = [_by_language(pairs[rows], held.ratings[rows], metric[rows]) for rows in places]
    return float(numpy.nanmean(taus)) if not numpy.isnan(taus).all() else math.nan


def _by_language(pairs: NDArray[numpy.str_], human: numpy.ndarray, metric: numpy.ndarray) -> float:
    """Mean of `mean_kendall` over language pairs, which weigh as much as they have rows.

    Over all rows at once, a metric that learned whose translations are rated low would look better than it is for
    anybody who compares translations from one language. If no pair has a tau, it is that of all rows.
    """
    total = weight = 0.0
    for pair in sorted(set(pairs.tolist())):
        rows = pairs == pair
        tau = mean_kendall(human[rows], metric[rows])
        if not math.isnan(tau):
            total, weight = total + tau * rows.sum(), weight + rows.sum()
    return float(total / weight) if weight else mean_kendall(human, metric)


def _train_members(
    model: PreTrainedModel,
    params: FinetuneParams,
    lessons: Lessons,
    encoded: EncodedPairs,
    evaluate: Callable[[torch.nn.Module], float],
    state: Path,
    out: Path,
) -> tuple[list[History], list[dict[str, dict[str, float]]]] | None:
    """Train every member from the weights that `model` has; it ends with the average. None if another process writes.

    Beside each member's history stands what it learned of the corpora's scales.

    The curves of the first member go to `out`; the others leave none.
    """
    targets, device = torch.tensor(lessons.targets), runtime.device()
    lengths = encoded.lengths[lessons.slots]

    def loss(learner: torch.nn.Module, rows: list[int]) -> torch.Tensor:
        chosen = lessons.slots[rows]
        found: torch.Tensor = learner(chosen, **encoded.batch(chosen, device))
        return found

    fresh = {name: weight.clone() for name, weight in model.state_dict().items()}
    histories, members, learned = list[History](), [], list[dict[str, dict[str, float]]]()
    with process_group():
        for number in range(params.members):
            model.load_state_dict(fresh)
            schedule = dataclasses.replace(params.schedule, seed=member_seed(params.schedule.seed, number))
            adapted(model, params.adapter, schedule.seed)
            if params.encoder is Encoder.FROZEN:
                freeze(model)
            learner = Learner(model, params.own_scale, lessons.corpora, targets).to(device)
            plan = BatchPlan(lengths, params.batch_pairs, schedule.seed)
            place = state / str(number)
            history = run(learner, loss, plan.rows, schedule, evaluate, place, place if number else out)
            histories += [history] if history is not None else []
            learned.append(learner.facts())
            merged(model)
            members.append({name: weight.clone() for name, weight in model.state_dict().items()})
    if params.members > 1:
        model.load_state_dict(average(members))
    return (histories, learned) if histories else None


def _train_grid(
    model: PreTrainedModel,
    params: FinetuneParams,
    lessons: Lessons,
    encoded: EncodedPairs,
    held: EncodedPairs,
    score: Score,
    state: Path,
    out: Path,
) -> Found | None:
    """The best perceptron over what the frozen encoders of `model`, whose perceptron has no hidden layer, read."""
    read, held_read = (head_inputs(model, pairs, params.batch_tokens) for pairs in (encoded, held))
    lengths, targets = encoded.lengths[lessons.slots], torch.tensor(lessons.targets)
    examples = Examples(read, lessons.slots, lengths, targets, lessons.corpora)
    shapes = params.regressor.shapes
    return best_perceptron(examples, held_read, score, shapes, params.own_scale, params.schedule, state, out)


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
