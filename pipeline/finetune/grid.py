"""RUSE and the frozen BERT regressor: encoders read every pair once, then perceptrons of all shapes learn from that.

004 (section 4.1.2) searches 1 to 3 hidden layers of 512 to 4,096 numbers, dropout 0.1 to 0.5 and batches of 64 to
1,024 pairs, and takes the model with the least squared error on validation. Here, as everywhere in this project, the
highest Kendall tau on validation decides, after the number of steps that `finetune.schedule` allows.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from transformers.modeling_outputs import SequenceClassifierOutput

from pipeline.core import runtime
from pipeline.finetune.heads import Shape
from pipeline.finetune.learner import Learner
from pipeline.metric.regressor import hidden_layers
from pipeline.training.loop import History, process_group
from pipeline.training.runs import curves, run
from pipeline.training.schedule import BatchPlan, Schedule

Score = Callable[[NDArray[numpy.float32]], float]
"""Agreement of the outputs (held pairs, outputs) with people; higher is better."""


class Perceptron(torch.nn.Module):
    """The head of `pipeline.metric.regressor.RegressorMetric` by itself, over `features` numbers of a pair."""

    def __init__(self, features: int, shape: Shape, outputs: int) -> None:
        super().__init__()
        self.config = None
        self.hidden = hidden_layers(features, shape.layers, shape.width, shape.dropout)
        self.classifier = torch.nn.Linear(shape.width, outputs)

    def forward(self, features: torch.Tensor) -> SequenceClassifierOutput:
        """`logits` (pairs, outputs) of `features` (pairs, features)."""
        return SequenceClassifierOutput(logits=self.classifier(self.hidden(features)))


@dataclass(frozen=True)
class Examples:
    """What perceptrons learn from.

    `read`: float32 (pairs, features). `slots`: the pair of each row of a pass. `lengths`: tokens of each row.
    `targets`: (pairs, outputs), NaN where unrated. `corpora`: of each pair.
    """

    read: NDArray[numpy.float32]
    slots: NDArray[numpy.int64]
    lengths: NDArray[numpy.int64]
    targets: torch.Tensor
    corpora: Sequence[str]


@dataclass(frozen=True)
class Found:
    """The best shape, its weights, the history of its run and all scores on validation."""

    shape: Shape
    weights: dict[str, torch.Tensor]
    history: History
    scores: list[dict[str, Any]]


def best_perceptron(
    examples: Examples,
    held: NDArray[numpy.float32],
    score: Score,
    shapes: Sequence[Shape],
    own_scale: Sequence[str],
    schedule: Schedule,
    state: Path,
    out: Path,
) -> Found | None:
    """Train a perceptron of each of the `shapes`; the first of the best on the pairs `held` (pairs, features) wins.

    Its curves go to `out`. None in every process except the one that writes results.
    """
    device, found, scores = runtime.device(), None, list[dict[str, Any]]()
    read, held_read = torch.from_numpy(examples.read), torch.from_numpy(held).to(device)
    with process_group():
        for number, shape in enumerate(shapes):
            torch.manual_seed(schedule.seed)
            perceptron = Perceptron(examples.read.shape[1], shape, examples.targets.shape[1]).to(device)
            learner = Learner(perceptron, own_scale, examples.corpora, examples.targets).to(device)
            plan = BatchPlan(examples.lengths, shape.batch_pairs, schedule.seed)

            def loss(learner: torch.nn.Module, rows: list[int]) -> torch.Tensor:
                chosen = examples.slots[rows]
                value: torch.Tensor = learner(chosen, features=read[chosen].to(device))
                return value

            def evaluate(_: torch.nn.Module, perceptron: Perceptron = perceptron) -> float:
                with torch.inference_mode():
                    return score(perceptron(held_read).logits.float().cpu().numpy())

            place = state / f"shape-{number}"
            history = run(learner, loss, plan.rows, schedule, evaluate, place, place)
            if history is None:
                continue
            scores.append({**dataclasses.asdict(shape), "validation": history.best_score})
            if found is None or history.best_score > found.history.best_score:
                weights = {name: weight.detach().cpu().clone() for name, weight in perceptron.state_dict().items()}
                found = Found(shape, weights, history, scores)
    if found is None:
        return None
    with curves(out) as log:
        for point in found.history.points:
            log(int(point["step"]), point)
    return found
