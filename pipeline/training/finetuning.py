"""Fine-tuning on human ratings: squared error on the rating (paper, section 3), best checkpoint on validation tau."""

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy
import scipy.stats
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from pipeline.core import runtime
from pipeline.core.errors import InputError
from pipeline.core.params import require, require_positive
from pipeline.core.records import RATINGS
from pipeline.core.seeds import generator
from pipeline.core.shards import read_rows
from pipeline.model.checkpoint import head_of, keep_heads, save_metric, with_outputs
from pipeline.model.loading import check_max_tokens, load_tokenizer
from pipeline.model.pairs import EncodedPairs, encode_pairs
from pipeline.model.predict import head_inputs, outputs
from pipeline.training.batching import BatchPlan
from pipeline.training.loop import Schedule
from pipeline.training.runs import finish, run, state_folder, write_counts, write_training


@dataclass(frozen=True)
class FinetuneParams:
    """`aspects` are rated and predicted one output each; WMT and own files have a single one.

    `ratings`: how many rated candidates train, drawn by the schedule's seed; None for all. `members`: runs that differ
    in the order of the batches and in dropout, whose weights are averaged. `probe`: penalty of the ridge regression
    whose solution the last layer starts from; None for a fresh one.
    """

    aspects: tuple[str, ...]
    ratings: int | None
    members: int
    probe: float | None
    max_tokens: int
    batch_pairs: int
    dropout: float
    batch_tokens: int
    schedule: Schedule

    def __post_init__(self) -> None:
        require_positive("finetune", self, "members", "max_tokens", "batch_pairs", "batch_tokens")
        require(0 <= self.dropout < 1, "finetune.dropout", "be at least 0 and below 1", self.dropout)
        require(self.ratings is None or self.ratings > 0, "finetune.ratings", "be at least 1 or null", self.ratings)
        require(self.probe is None or self.probe > 0, "finetune.probe", "be above 0 or null", self.probe)
        distinct = 0 < len(self.aspects) == len(set(self.aspects))
        require(distinct, "finetune.aspects", "name at least one aspect, and none twice", list(self.aspects))
        self.schedule.check("finetune.schedule")


@dataclass(frozen=True)
class RatedPairs:
    """Pairs with one rating for each aspect: `ratings` is float32 (pairs, aspects), NaN where an aspect is unrated.

    `rows` counts the rating rows of the split, `dropped` those of them that rate other aspects, by reason.
    """

    references: list[str]
    candidates: list[str]
    ratings: numpy.ndarray
    rows: int
    dropped: dict[str, int]


def read_rated(folder: Path, split: str, aspects: Sequence[str], limit: int | None = None, seed: int = 0) -> RatedPairs:
    """Rows of `split` that rate one of `aspects`; several references make several pairs with the same rating.

    `limit` rated candidates are drawn by `seed` where there are more: those of a smaller limit are among them.
    """
    rated: dict[str, dict[tuple[str, str], dict[str, float]]] = {}
    rows, dropped, rows_of = 0, Counter[str](), Counter[str]()
    for row in read_rows(folder, RATINGS):
        if row["split"] != split:
            continue
        rows += 1
        if row["aspect"] not in aspects:
            dropped[f"{split} rating of {row['aspect']}"] += 1
            continue
        owner = row["rating_id"].removesuffix(f"/{row['aspect']}")
        rows_of[owner] += 1
        for reference in (row["reference"], *row["other_references"]):
            rated.setdefault(owner, {}).setdefault((reference, row["candidate"]), {})[row["aspect"]] = row["score"]
    if not rated:
        raise InputError(f"has no {split} rating of {', '.join(aspects)}", file=folder)
    owners = list(rated)
    if limit is not None and limit < len(owners):
        chosen = set(generator(seed, "ratings").permutation(len(owners))[:limit].tolist())
        dropped[f"{split} rating not drawn"] = sum(rows_of[o] for i, o in enumerate(owners) if i not in chosen)
        owners = [owner for i, owner in enumerate(owners) if i in chosen]
    texts = [pair for owner in owners for pair in rated[owner]]
    scores = [values for owner in owners for values in rated[owner].values()]
    ratings = numpy.array([[one.get(a, numpy.nan) for a in aspects] for one in scores], dtype=numpy.float32)
    return RatedPairs([z for z, _ in texts], [c for _, c in texts], ratings, rows, dict(sorted(dropped.items())))


def kendall(human: numpy.ndarray, metric: numpy.ndarray) -> float:
    """Mean over aspects of Kendall's tau-b between the columns of two (pairs, aspects) arrays.

    Unrated pairs (NaN) and aspects without a tau (fewer than two different values) are left out; NaN if none is left.
    """
    taus = []
    for column in range(human.shape[1]):
        known = ~numpy.isnan(human[:, column])
        if known.sum() > 1:
            taus.append(scipy.stats.kendalltau(human[known, column], metric[known, column]).statistic)
    return float(numpy.nanmean(taus)) if not numpy.isnan(taus).all() else math.nan


def orders_something(ratings: numpy.ndarray) -> bool:
    """Whether some column of (pairs, aspects) holds two different ratings, so that tau can be defined."""
    return any(len(numpy.unique(column[~numpy.isnan(column)])) > 1 for column in ratings.T)


def rating_loss(predicted: torch.Tensor, ratings: torch.Tensor) -> torch.Tensor:
    """Mean squared error over the ratings that are known (not NaN); both tensors are (batch, aspects)."""
    known = ~torch.isnan(ratings)
    return torch.nn.functional.mse_loss(predicted[known], ratings[known])


def finetune(params: FinetuneParams, start: Path, ratings: Path, out: Path) -> None:
    """Fine-tune the checkpoint `start` on the training rows of `ratings` and write the best one to `out`."""
    tokenizer = load_tokenizer(start)
    model = with_outputs(start, params.aspects, params.dropout, params.schedule.seed)
    check_max_tokens("finetune.max_tokens", params.max_tokens, model.config, tokenizer)
    train = read_rated(ratings, "train", params.aspects, params.ratings, params.schedule.seed)
    held = read_rated(ratings, "validation", params.aspects)
    if not orders_something(held.ratings):
        raise InputError("validation needs at least two different ratings to choose the best checkpoint", file=ratings)
    encoded = encode_pairs(tokenizer, train.references, train.candidates, params.max_tokens)
    held_encoded = encode_pairs(tokenizer, held.references, held.candidates, params.max_tokens)
    targets = torch.tensor(train.ratings)
    device = runtime.device()
    model.to(device)
    if params.probe is not None:
        probe(model, encoded, train.ratings, params.probe, params.batch_tokens)

    def loss(model: torch.nn.Module, rows: list[int]) -> torch.Tensor:
        return rating_loss(model(**encoded.batch(rows, device)).logits, targets[rows].to(device))

    def evaluate(model: torch.nn.Module) -> float:
        return kendall(held.ratings, outputs(model, held_encoded, params.batch_tokens))

    state = state_folder("pipeline.stages.finetune", params, [start / "model.safetensors", ratings], start.name)
    facts: dict[str, Any] = {"pairs": len(targets), "pairs_validation": len(held.candidates)}
    facts |= {"truncated": encoded.truncated}
    if train_members(model, loss, encoded.lengths, evaluate, params, state, out, facts):
        save_metric(model, tokenizer, out)
        keep_heads(start, out)
        write_counts(out, train.rows + held.rows, {**train.dropped, **held.dropped})
        finish(state)


class MemberParams(Protocol):
    """What `train_members` reads of a stage's parameters."""

    @property
    def members(self) -> int: ...
    @property
    def batch_pairs(self) -> int: ...
    @property
    def schedule(self) -> Schedule: ...


def train_members(
    model: PreTrainedModel,
    loss: Callable[[torch.nn.Module, list[int]], torch.Tensor],
    lengths: Sequence[int] | NDArray[numpy.int64],
    evaluate: Callable[[torch.nn.Module], float],
    params: MemberParams,
    state: Path,
    out: Path,
    facts: dict[str, Any],
) -> bool:
    """Train `params.members` runs from the weights of `model`, which ends with the mean of their best checkpoints.

    `lengths` are the tokens of the rows that `loss` takes. Writes `training.json` with `facts` to `out`; False in a
    process of torchrun that writes nothing.
    """
    fresh = {name: weight.clone() for name, weight in model.state_dict().items()}
    histories, members = [], []
    for number in range(params.members):
        model.load_state_dict(fresh)
        schedule = dataclasses.replace(params.schedule, seed=params.schedule.seed + number)
        plan = BatchPlan(lengths, params.batch_pairs, schedule.seed)
        place = state / str(number)
        histories.append(run(model, loss, plan.rows, schedule, evaluate, place, place if number else out))
        members.append({name: weight.clone() for name, weight in model.state_dict().items()})
    history = histories[0]
    if history is None:
        return False
    if params.members > 1:
        model.load_state_dict(average(members))
        facts = {**facts, "members": [one.best_score for one in histories if one is not None]}
        history.best_score = evaluate(model)
    write_training(out, history, {**facts, "padding_share": plan.padding_share})
    return True


def probe(
    model: PreTrainedModel, pairs: EncodedPairs, ratings: numpy.ndarray, penalty: float, batch_tokens: int
) -> None:
    """Set the last layer to the ridge regression of `ratings` (pairs, aspects) on what it reads, all else as it is.

    Kumar et al. 2022 (linear probing, then fine-tuning). What the layer reads is standardised; `penalty` is that of its
    squared weights, in numbers of pairs. What it gave stands in docs/log.md.
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


def average(members: Sequence[Mapping[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """The mean of every weight over models that started from the same weights (Wortsman et al. 2022, "model soups")."""
    return {
        name: torch.stack([member[name] for member in members]).mean(0) if weight.is_floating_point() else weight
        for name, weight in members[0].items()
    }
