"""What pre-training predicts: nine tasks in six groups (paper, section 4.2 and table 1), and the variants of 5.4.

One linear layer on the encoder's vector predicts all columns at once: a matrix whose rows are the tasks' own layers.
Regression tasks pay squared error divided by their dimension; multiclass tasks pay cross-entropy with soft targets;
the sum is weighted by gamma (section 4.3). Regression targets may be standardised (mean 0, variance 1 over the
training pairs): log-likelihoods lie around -3 while BLEU lies in [0, 1], and one learning rate has to serve both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy
import torch

from pipeline.core.errors import ParamsError
from pipeline.core.records import SIGNAL_COLUMNS


class Kind(StrEnum):
    """How a task is learned."""

    REGRESSION = "regression"
    MULTICLASS = "multiclass"


@dataclass(frozen=True)
class Task:
    """One task: its name, its signal group, the label columns that it predicts, and how."""

    name: str
    group: str
    columns: tuple[str, ...]
    kind: Kind


def _tasks() -> tuple[Task, ...]:
    tasks = []
    for group, columns in SIGNAL_COLUMNS.items():
        if group == "backtranslation":
            tasks += [Task(column, group, (column,), Kind.REGRESSION) for column in columns]
        else:
            kind = Kind.MULTICLASS if group in ("entailment", "flag") else Kind.REGRESSION
            tasks.append(Task(group, group, columns, kind))
    return tuple(tasks)


TASKS = _tasks()
"""BLEU, ROUGE, BERTScore, four backtranslation likelihoods, entailment, backtranslation flag."""


def tasks_of(variant: str) -> tuple[Task, ...]:
    """Tasks that `variant` pre-trains on: `all`, `none`, `only_<group>` or `no_<group>`.

    >>> [task.name for task in tasks_of("only_rouge")]
    ['rouge']
    """
    if variant == "all":
        return TASKS
    if variant == "none":
        return ()
    how, _, group = variant.partition("_")
    if how not in ("only", "no") or group not in SIGNAL_COLUMNS:
        groups = ", ".join(SIGNAL_COLUMNS)
        raise ParamsError(
            f"variants: {variant!r} is not all, none, only_GROUP or no_GROUP, with GROUP one of {groups}."
        )
    return tuple(task for task in TASKS if (task.group == group) == (how == "only"))


@dataclass(frozen=True)
class Scaling:
    """Mean and standard deviation of every predicted column; zeros and ones where nothing is standardised."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]


def fit_scaling(targets: numpy.ndarray, tasks: Sequence[Task], standardise: bool) -> Scaling:
    """Scaling of the regression columns of `targets` (rows, columns); a constant column keeps deviation 1."""
    columns = sum(len(task.columns) for task in tasks)
    mean, deviation = numpy.zeros(columns), numpy.ones(columns)
    start = 0
    for task in tasks:
        stop = start + len(task.columns)
        if standardise and task.kind is Kind.REGRESSION:
            mean[start:stop] = targets[:, start:stop].mean(0, dtype=numpy.float64)
            spread = targets[:, start:stop].std(0, dtype=numpy.float64)
            deviation[start:stop] = numpy.where(spread > 1e-6, spread, 1.0)
        start = stop
    return Scaling(tuple(mean.tolist()), tuple(deviation.tolist()))


def multitask_loss(
    predicted: torch.Tensor, targets: torch.Tensor, tasks: Sequence[Task], weights: Mapping[str, float]
) -> torch.Tensor:
    """Mean over the batch of sum over tasks of gamma * loss; both tensors are (batch, columns), targets scaled.

    `weights` maps each signal group to its gamma.
    """
    total = predicted.new_zeros(())
    start = 0
    for task in tasks:
        stop = start + len(task.columns)
        guess, truth = predicted[:, start:stop], targets[:, start:stop]
        if task.kind is Kind.REGRESSION:
            loss = torch.nn.functional.mse_loss(guess, truth)
        else:
            loss = torch.nn.functional.cross_entropy(guess, truth)
        total = total + weights[task.group] * loss
        start = stop
    return total
