"""Fine-tuning on human ratings: squared error on the rating (paper, section 3), best checkpoint on validation tau.

Beyond the paper, candidates of known quality (`pipeline/grade/kinds.py`) may stand beside the ratings.
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
from pipeline.core.models import check_max_tokens, load_tokenizer
from pipeline.core.params import require, require_positive
from pipeline.core.records import GRADED, RATINGS
from pipeline.core.seeds import generator
from pipeline.core.shards import read_rows
from pipeline.metric.checkpoint import head_of, keep_heads, save_metric, with_outputs
from pipeline.metric.pairs import EncodedPairs, encode_pairs
from pipeline.metric.prediction import head_inputs, outputs
from pipeline.training.batches import BatchPlan
from pipeline.training.loop import Schedule, process_group
from pipeline.training.runs import finish, run, state_folder, write_counts, write_training

MEANING = ("adequacy", "semantics")
"""Aspects that a graded candidate says something about: one of another sentence is perfectly fluent."""


@dataclass(frozen=True)
class FinetuneParams:
    """`aspects` are rated and predicted one output each; WMT and own files have a single one.

    `ratings`: how many rated candidates train, drawn by the schedule's seed; None for all. `members`: runs that differ
    in the order of the batches and in dropout, whose weights are averaged. `probe`: penalty of the ridge regression
    whose solution the last layer starts from; None for a fresh one. `graded_share`: of the rows of a pass, graded
    candidates, `graded_rows` different ones at most; ratings, or they, are repeated so that the share holds.
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
        graded = self.graded_share == 0 or len(self.graded_aspects()) > 0
        require(graded, "finetune.graded_share", f"be 0 without {' or '.join(MEANING)}", self.graded_share)
        self.schedule.check("finetune.schedule")

    def graded_aspects(self) -> list[int]:
        """Places of the aspects that graded candidates are graded for: those of MEANING, or the only one."""
        named = [place for place, aspect in enumerate(self.aspects) if aspect in MEANING]
        return [0] if len(self.aspects) == 1 else named


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
    """What a run learns from: targets are float32 (pairs, aspects); `slots` numbers the pair of every row of a pass.

    `rows` counts the graded candidates that were read, `dropped` those that were not drawn.
    """

    references: list[str]
    candidates: list[str]
    targets: numpy.ndarray
    slots: NDArray[numpy.int64]
    rows: int = 0
    dropped: int = 0


def with_graded(rated: RatedPairs, graded: Path, params: FinetuneParams) -> Lessons:
    """The ratings, and `params.graded_rows` graded candidates, or fewer, as `params.graded_share` of a pass.

    The fewer are repeated, so that the share holds to within half a repetition. A grade is placed by the mean and the
    standard deviation of the ratings, on every aspect of MEANING alone.
    """
    ours, share = len(rated.references), params.graded_share
    if not share:
        return Lessons(rated.references, rated.candidates, rated.ratings, numpy.arange(ours))
    rows = list(read_rows(graded, GRADED))
    if not rows:
        raise InputError("holds no graded candidate (finetune.graded_share asks for them)", file=graded)
    beside = ours * share / (1 - share)  # graded rows beside each rating once
    copies = max(1, round(min(params.graded_rows, len(rows)) / beside))
    count = min(params.graded_rows, len(rows), max(1, round(copies * beside)))
    repeated = max(1, round(copies * beside / count))
    drawn = [rows[i] for i in generator(params.schedule.seed, "graded").permutation(len(rows))[:count]]
    steps = numpy.array([row["grade"] for row in drawn], numpy.float32)
    targets = numpy.full((count, len(params.aspects)), numpy.nan, numpy.float32)
    for column in params.graded_aspects():
        known = rated.ratings[:, column][~numpy.isnan(rated.ratings[:, column])]
        if len(known):
            targets[:, column] = known.mean() + known.std() * steps
    return Lessons(
        rated.references + [row["reference"] for row in drawn],
        rated.candidates + [row["candidate"] for row in drawn],
        numpy.concatenate([rated.ratings, targets]),
        numpy.concatenate([*[numpy.arange(ours)] * copies, *[ours + numpy.arange(count)] * repeated]),
        len(rows),
        len(rows) - count,
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
    lessons = with_graded(train, graded, params)
    encoded = encode_pairs(tokenizer, lessons.references, lessons.candidates, params.max_tokens)
    held_encoded = encode_pairs(tokenizer, held.references, held.candidates, params.max_tokens)
    targets = torch.tensor(lessons.targets)
    device = runtime.device()
    model.to(device)
    if params.probe is not None:
        rows_of_pass = encoded.take(lessons.slots)
        probe(model, rows_of_pass, lessons.targets[lessons.slots], params.probe, params.batch_tokens)
    fresh = {name: weight.clone() for name, weight in model.state_dict().items()}

    def loss(model: torch.nn.Module, rows: list[int]) -> torch.Tensor:
        chosen = lessons.slots[rows]
        return rating_loss(model(**encoded.batch(chosen, device)).logits, targets[chosen].to(device))

    def evaluate(model: torch.nn.Module) -> float:
        return kendall(held.ratings, outputs(model, held_encoded, params.batch_tokens))

    read = [start / "model.safetensors", ratings, *([graded] if params.graded_share else [])]
    state = state_folder("pipeline.finetune.__main__", params, read, start.name)
    histories, members = [], []
    with process_group():
        for number in range(params.members):
            model.load_state_dict(fresh)
            schedule = dataclasses.replace(params.schedule, seed=member_seed(params.schedule.seed, number))
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
    facts |= {"pairs": len(train.references), "pairs_validation": len(held.candidates)}
    if params.graded_share:
        share = float((lessons.slots >= len(train.references)).mean())
        facts |= {"graded": lessons.rows - lessons.dropped, "graded_share": round(share, 4)}
    facts |= {"truncated": encoded.truncated, "padding_share": plan.padding_share}
    write_training(out, history, facts)
    left = {"graded candidate not drawn": lessons.dropped} if lessons.dropped else {}
    write_counts(out, train.rows + held.rows + lessons.rows, {**train.dropped, **held.dropped, **left})
    finish(state)


def member_seed(seed: int, number: int) -> int:
    """The seed of member `number`; the first has `seed` itself, and no two seeds share another member."""
    return int(generator(seed, "member", number).integers(2**31)) if number else seed


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
