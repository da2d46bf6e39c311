"""Fine-tuning on human ratings: squared error on the rating (paper, section 3), best checkpoint on validation tau.

Beyond the paper, candidates of known quality (`pipeline/synthetic/graded.py`) may stand beside the ratings.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import scipy.stats
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from pipeline.core import runtime
from pipeline.core.errors import InputError
from pipeline.core.params import require, require_positive
from pipeline.core.records import GRADED, RATINGS
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
    whose solution the last layer starts from; None for a fresh one. `graded_share`: of the rows of a pass, graded
    candidates; there are `graded_rows` of them at most, and the ratings are repeated so that the share holds.
    """

    aspects: tuple[str, ...]
    ratings: int | None
    graded_share: float
    graded_rows: int
    members: int
    probe: float | None
    max_tokens: int
    batch_pairs: int
    dropout: float
    batch_tokens: int
    schedule: Schedule

    def __post_init__(self) -> None:
        require_positive("finetune", self, "graded_rows", "members", "max_tokens", "batch_pairs", "batch_tokens")
        require(0 <= self.dropout < 1, "finetune.dropout", "be at least 0 and below 1", self.dropout)
        require(self.ratings is None or self.ratings > 0, "finetune.ratings", "be at least 1 or null", self.ratings)
        require(0 <= self.graded_share < 1, "finetune.graded_share", "be at least 0 and below 1", self.graded_share)
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


@dataclass(frozen=True)
class Lessons:
    """What a run learns from: targets are float32 (pairs, aspects); `slots` numbers the pair of every row of a pass."""

    references: list[str]
    candidates: list[str]
    targets: numpy.ndarray
    slots: NDArray[numpy.int64]


def with_graded(rated: RatedPairs, graded: Path, share: float, most: int, seed: int) -> Lessons:
    """The ratings, and graded candidates as `share` of a pass: `most` of them, drawn by `seed`, or fewer.

    A grade is placed by the mean and the standard deviation of each aspect's ratings.
    """
    ours = len(rated.references)
    if not share:
        return Lessons(rated.references, rated.candidates, rated.ratings, numpy.arange(ours))
    rows = list(read_rows(graded, GRADED))
    if not rows:
        raise InputError("holds no graded candidate (finetune.graded_share asks for them)", file=graded)
    count = min(most, len(rows))
    copies = max(1, round(count * (1 - share) / (share * ours)))
    count = min(count, max(1, round(copies * ours * share / (1 - share))))
    drawn = [rows[i] for i in generator(seed, "graded").permutation(len(rows))[:count]]
    steps = numpy.array([row["grade"] for row in drawn], numpy.float32)[:, None]
    placed = numpy.nanmean(rated.ratings, axis=0) + numpy.nanstd(rated.ratings, axis=0) * steps
    return Lessons(
        rated.references + [row["reference"] for row in drawn],
        rated.candidates + [row["candidate"] for row in drawn],
        numpy.concatenate([rated.ratings, placed.astype(numpy.float32)]),
        numpy.concatenate([*[numpy.arange(ours)] * copies, ours + numpy.arange(count)]),
    )


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
    lessons = with_graded(train, graded, params.graded_share, params.graded_rows, params.schedule.seed)
    encoded = encode_pairs(tokenizer, lessons.references, lessons.candidates, params.max_tokens)
    held_encoded = encode_pairs(tokenizer, held.references, held.candidates, params.max_tokens)
    targets = torch.tensor(lessons.targets)
    device = runtime.device()
    model.to(device)
    if params.probe is not None:
        probe(model, encoded, lessons.targets, params.probe, params.batch_tokens)
    fresh = {name: weight.clone() for name, weight in model.state_dict().items()}

    def loss(model: torch.nn.Module, rows: list[int]) -> torch.Tensor:
        chosen = lessons.slots[rows]
        return rating_loss(model(**encoded.batch(chosen, device)).logits, targets[chosen].to(device))

    def evaluate(model: torch.nn.Module) -> float:
        return kendall(held.ratings, outputs(model, held_encoded, params.batch_tokens))

    read = [start / "model.safetensors", ratings, *([graded] if params.graded_share else [])]
    state = state_folder("pipeline.stages.finetune", params, read, start.name)
    histories, members = [], []
    for number in range(params.members):
        model.load_state_dict(fresh)
        schedule = dataclasses.replace(params.schedule, seed=params.schedule.seed + number)
        plan = BatchPlan(encoded.lengths[lessons.slots], params.batch_pairs, schedule.seed)
        place = state / str(number)
        histories.append(run(model, loss, plan.rows, schedule, evaluate, place, place if number else out))
        members.append({name: weight.clone() for name, weight in model.state_dict().items()})
    history = histories[0]
    if history is None:
        return
    facts: dict[str, Any] = {}
    if params.members > 1:
        model.load_state_dict(average(members))
        facts["members"] = [one.best_score for one in histories if one is not None]
        history.best_score = evaluate(model)
    assert isinstance(model, PreTrainedModel)
    save_metric(model, tokenizer, out)
    keep_heads(start, out)
    graded_pairs = len(targets) - len(train.references)
    facts |= {"pairs": len(train.references), "graded": graded_pairs, "pairs_validation": len(held.candidates)}
    facts |= {"truncated": encoded.truncated, "padding_share": plan.padding_share}
    write_training(out, history, facts)
    write_counts(out, train.rows + held.rows + graded_pairs, {**train.dropped, **held.dropped})
    finish(state)


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
