"""One metric out of several: what is shipped (beyond the paper).

It learns three things at once: the ratings of people, the mean score that the fine-tuned metrics give to pairs nobody
rated (Pu et al. 2021, "Learning Compact Metrics for MT"), and the grades of candidates that no system writes
(`pipeline/synthetic/graded.py`). Squared error on all, best checkpoint on the validation ratings.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import torch

from pipeline.core import runtime
from pipeline.core.errors import InputError
from pipeline.core.params import require, require_positive
from pipeline.core.records import GRADED, PAIRS
from pipeline.core.seeds import generator
from pipeline.core.shards import read_rows
from pipeline.model.checkpoint import save_metric, with_outputs
from pipeline.model.loading import check_max_tokens, load_tokenizer
from pipeline.model.pairs import encode_pairs
from pipeline.model.predict import outputs, predict
from pipeline.training.finetuning import RatedPairs, kendall, orders_something, rating_loss, read_rated, train_members
from pipeline.training.loop import Schedule
from pipeline.training.runs import finish, state_folder, write_counts


@dataclass(frozen=True)
class DistilParams:
    """`teachers`: variants whose scores are averaged; none of them, and the stage makes no metric.

    `start`: the variant whose pre-trained checkpoint is the start. `taught`, `graded`: how many synthetic pairs the
    teachers score and how many graded ones take part, drawn by the schedule's seed; a rated pair counts `rated` times
    in each pass.
    """

    teachers: tuple[str, ...]
    start: str
    aspects: tuple[str, ...]
    rated: int
    taught: int
    graded: int
    members: int
    max_tokens: int
    batch_pairs: int
    dropout: float
    batch_tokens: int
    schedule: Schedule

    def __post_init__(self) -> None:
        require_positive("distil", self, "rated", "members", "max_tokens", "batch_pairs", "batch_tokens")
        require(0 <= self.dropout < 1, "distil.dropout", "be at least 0 and below 1", self.dropout)
        for name in ("taught", "graded"):
            require(getattr(self, name) >= 0, f"distil.{name}", "be 0 or more", getattr(self, name))
        distinct = len(set(self.teachers)) == len(self.teachers)
        require(distinct, "distil.teachers", "name no variant twice", list(self.teachers))
        require(len(self.aspects) > 0, "distil.aspects", "name at least one aspect", list(self.aspects))
        self.schedule.check("distil.schedule")


class Lesson(NamedTuple):
    """Pairs and their targets, float32 (pairs, aspects), NaN where unknown."""

    references: list[str]
    candidates: list[str]
    targets: numpy.ndarray


@dataclass(frozen=True)
class Inputs:
    """The folders that `distil` reads; `finetuned` and `pretrained` hold a checkpoint folder for each variant."""

    finetuned: Path
    pretrained: Path
    pairs: Path
    graded: Path
    ratings: Path


def distil(params: DistilParams, inputs: Inputs, out: Path) -> None:
    """Train the metric and write it to `out`."""
    if not params.teachers:
        write_counts(out, 0, {})
        return
    start = inputs.pretrained / params.start
    for folder in (start, *(inputs.finetuned / teacher for teacher in params.teachers)):
        if not folder.is_dir():
            raise InputError("no such checkpoint; distil names a variant that is not among `variants`", file=folder)
    tokenizer = load_tokenizer(start)
    model = with_outputs(start, params.aspects, params.dropout, params.schedule.seed)
    check_max_tokens("distil.max_tokens", params.max_tokens, model.config, tokenizer)
    train = read_rated(inputs.ratings, "train", params.aspects)
    held = read_rated(inputs.ratings, "validation", params.aspects)
    if not orders_something(held.ratings):
        raise InputError(
            "validation needs at least two different ratings to choose the best checkpoint", file=inputs.ratings
        )
    lessons = [
        Lesson(train.references, train.candidates, train.ratings),
        taught(params, inputs.finetuned, inputs.pairs),
        grades(params, inputs.graded, train),
    ]
    targets = torch.tensor(numpy.concatenate([lesson.targets for lesson in lessons]))
    references = [text for lesson in lessons for text in lesson.references]
    candidates = [text for lesson in lessons for text in lesson.candidates]
    encoded = encode_pairs(tokenizer, references, candidates, params.max_tokens)
    held_encoded = encode_pairs(tokenizer, held.references, held.candidates, params.max_tokens)
    ours = len(train.references)
    slots = numpy.concatenate([*[numpy.arange(ours)] * params.rated, numpy.arange(ours, len(encoded))])
    device = runtime.device()
    model.to(device)

    def loss(model: torch.nn.Module, rows: list[int]) -> torch.Tensor:
        chosen = slots[rows]
        return rating_loss(model(**encoded.batch(chosen, device)).logits, targets[chosen].to(device))

    def evaluate(model: torch.nn.Module) -> float:
        return kendall(held.ratings, outputs(model, held_encoded, params.batch_tokens))

    teachers = [inputs.finetuned / teacher for teacher in params.teachers]
    read = [start, *teachers, inputs.pairs, inputs.graded, inputs.ratings]
    state = state_folder("pipeline.stages.distil", params, read, params.start)
    facts: dict[str, Any] = {"pairs": len(encoded), "pairs_validation": len(held.candidates)}
    facts |= {name: len(lesson.targets) for name, lesson in zip(("rated", "taught", "graded"), lessons, strict=True)}
    if train_members(model, loss, encoded.lengths[slots], evaluate, params, state, out, facts):
        save_metric(model, tokenizer, out)
        rows = train.rows + held.rows + facts["taught"] + facts["graded"]
        write_counts(out, rows, dict(Counter(train.dropped) + Counter(held.dropped)))
        finish(state)


def taught(params: DistilParams, finetuned: Path, pairs: Path) -> Lesson:
    """`params.taught` synthetic pairs, or all where there are fewer, with the mean score of the teachers."""
    rows = _drawn(list(read_rows(pairs, PAIRS)), params.taught, params.schedule.seed, "taught")
    references, candidates = [row["reference"] for row in rows], [row["candidate"] for row in rows]
    scores = [
        predict(finetuned / teacher, references, candidates, params.max_tokens, params.batch_tokens)
        for teacher in params.teachers
    ]
    for teacher, found in zip(params.teachers, scores, strict=True):
        if rows and found.shape[1] != len(params.aspects):
            raise InputError(f"predicts other aspects than {', '.join(params.aspects)}", file=finetuned / teacher)
    mean = numpy.mean(scores, axis=0) if rows else numpy.zeros((0, len(params.aspects)), numpy.float32)
    return Lesson(references, candidates, mean.astype(numpy.float32))


def grades(params: DistilParams, graded: Path, rated: RatedPairs) -> Lesson:
    """`params.graded` graded pairs, or all where there are fewer, each aspect on the scale of its ratings."""
    rows = _drawn(list(read_rows(graded, GRADED)), params.graded, params.schedule.seed, "graded")
    mean, deviation = numpy.nanmean(rated.ratings, axis=0), numpy.nanstd(rated.ratings, axis=0)
    steps = numpy.array([row["grade"] for row in rows], numpy.float32)[:, None]
    targets = (mean + deviation * steps).astype(numpy.float32)
    return Lesson([row["reference"] for row in rows], [row["candidate"] for row in rows], targets)


def _drawn(rows: list[dict[str, Any]], count: int, seed: int, scope: str) -> list[dict[str, Any]]:
    order = generator(seed, "distil", scope).permutation(len(rows))[:count]
    return [rows[i] for i in order]
