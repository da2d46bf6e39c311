"""Fine-tuning on human ratings: squared error on the rating (paper, section 3), best checkpoint on validation tau."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy
import scipy.stats
import torch
from transformers import PreTrainedModel

from pipeline.core import runtime
from pipeline.core.errors import InputError
from pipeline.core.records import RATINGS
from pipeline.core.shards import read_rows
from pipeline.model.checkpoint import keep_heads, load_tokenizer, new_metric, save_metric
from pipeline.model.pairs import encode_pairs
from pipeline.model.predict import outputs
from pipeline.training.batching import BatchPlan
from pipeline.training.loop import Schedule
from pipeline.training.runs import finish, run, state_folder, write_training


@dataclass(frozen=True)
class FinetuneParams:
    """`aspects` are rated and predicted one output each; WMT and own files have a single one."""

    aspects: tuple[str, ...]
    max_tokens: int
    batch_pairs: int
    dropout: float
    batch_tokens: int
    schedule: Schedule


@dataclass(frozen=True)
class RatedPairs:
    """Pairs with one rating for each aspect: `ratings` is float32 (pairs, aspects), NaN where an aspect is unrated."""

    references: list[str]
    candidates: list[str]
    ratings: numpy.ndarray


def read_rated(folder: Path, split: str, aspects: Sequence[str]) -> RatedPairs:
    """Rows of `split` that rate one of `aspects`; several references make several pairs with the same rating."""
    rated: dict[tuple[str, str, str], dict[str, float]] = {}
    for row in read_rows(folder, RATINGS):
        if row["split"] != split or row["aspect"] not in aspects:
            continue
        owner = row["rating_id"].rsplit("/", 1)[0] if len(aspects) > 1 else row["rating_id"]
        for reference in (row["reference"], *row["other_references"]):
            rated.setdefault((owner, reference, row["candidate"]), {})[row["aspect"]] = row["score"]
    if not rated:
        raise InputError(f"has no {split} rating of {', '.join(aspects)}", file=folder)
    values = [[scores.get(aspect, numpy.nan) for aspect in aspects] for scores in rated.values()]
    return RatedPairs([k[1] for k in rated], [k[2] for k in rated], numpy.array(values, dtype=numpy.float32))


def kendall(human: numpy.ndarray, metric: numpy.ndarray) -> float:
    """Mean over aspects of Kendall's tau-b between the columns of two (pairs, aspects) arrays; NaN is left out."""
    taus = []
    for column in range(human.shape[1]):
        known = ~numpy.isnan(human[:, column])
        taus.append(scipy.stats.kendalltau(human[known, column], metric[known, column]).statistic)
    return float(numpy.mean(taus))


def rating_loss(predicted: torch.Tensor, ratings: torch.Tensor) -> torch.Tensor:
    """Mean squared error over the ratings that are known (not NaN); both tensors are (batch, aspects)."""
    known = ~torch.isnan(ratings)
    return torch.nn.functional.mse_loss(predicted[known], ratings[known])


def finetune(params: FinetuneParams, start: Path, ratings: Path, out: Path) -> None:
    """Fine-tune the checkpoint `start` on the training rows of `ratings` and write the best one to `out`."""
    tokenizer = load_tokenizer(start)
    model = new_metric(str(start), params.aspects, params.dropout, params.schedule.seed)
    train = read_rated(ratings, "train", params.aspects)
    held = read_rated(ratings, "validation", params.aspects)
    encoded = encode_pairs(tokenizer, train.references, train.candidates, params.max_tokens)
    held_encoded = encode_pairs(tokenizer, held.references, held.candidates, params.max_tokens)
    plan = BatchPlan(encoded.lengths, params.batch_pairs, params.schedule.seed)
    targets = torch.tensor(train.ratings)
    device = runtime.device()
    model.to(device)

    def loss(model: torch.nn.Module, rows: list[int]) -> torch.Tensor:
        return rating_loss(model(**encoded.batch(rows, device)).logits, targets[rows].to(device))

    def evaluate(model: torch.nn.Module) -> float:
        return kendall(held.ratings, outputs(model, held_encoded, params.batch_tokens))

    state = state_folder("pipeline.stages.finetune", params, [start / "model.safetensors", ratings], start.name)
    history = run(model, loss, plan.rows, params.schedule, evaluate, state, out)
    if history is None:
        return
    assert isinstance(model, PreTrainedModel)
    save_metric(model, tokenizer, out)
    keep_heads(start, out)
    facts = {"pairs": len(targets), "pairs_validation": len(held.candidates), "truncated": encoded.truncated}
    write_training(out, history, {**facts, "padding_share": plan.padding_share})
    finish(state)
