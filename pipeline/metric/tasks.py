"""What pre-training predicts: nine tasks in six signals (paper, section 4.2 and table 1), and the variants of 5.4.

One linear layer on the encoder's vector predicts all columns at once: a matrix whose rows are the tasks' own layers.
Regression tasks pay squared error divided by their dimension; multiclass tasks pay cross-entropy with soft targets;
the sum is weighted by gamma (section 4.3). Regression targets may be standardised (mean 0, variance 1 over the
training pairs): log-likelihoods lie around -3 while BLEU lies in [0, 1], and one learning rate has to serve both.

Nothing here lists the signals. params.yaml names them and how each is learned; their columns come from their labels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy
import torch

from pipeline.core.errors import ParamsError


class Loss(StrEnum):
    """How the columns of a signal are learned."""

    JOINT = "joint"  # one regression task: squared error, divided by the number of columns
    EACH = "each"  # one regression task for each column
    DISTRIBUTION = "distribution"  # one multiclass task: cross-entropy with the columns as probabilities


@dataclass(frozen=True)
class Task:
    """One task: its name, the signal that it belongs to, the columns of labels that it predicts, and its loss."""

    name: str
    signal: str
    columns: tuple[str, ...]
    loss: Loss


@dataclass(frozen=True)
class Scaling:
    """Mean and standard deviation of every predicted column; 0 and 1 for a column that is not standardised."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]


@dataclass(frozen=True)
class Targets:
    """What a pre-training head predicts: output i is column i of the tasks, scaled by `scaling`."""

    tasks: tuple[Task, ...]
    scaling: Scaling

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of all tasks, in the order of the head's outputs."""
        return columns_of(self.tasks)


def chosen_signals(variant: str, signals: Sequence[str]) -> tuple[str, ...]:
    """Those of `signals` that `variant` learns: `all`, `none`, `only_SIGNAL` or `no_SIGNAL`; else a ParamsError.

    >>> chosen_signals("no_rouge", ["bleu", "rouge", "flag"])
    ('bleu', 'flag')
    """
    if variant in ("all", "none"):
        return tuple(signals) if variant == "all" else ()
    how, _, named = variant.partition("_")
    if how not in ("only", "no") or named not in signals:
        raise ParamsError(
            f"variants: {variant!r} is not all, none, only_SIGNAL or no_SIGNAL, "
            f"with SIGNAL one of {', '.join(signals)}."
        )
    return tuple(signal for signal in signals if (signal == named) == (how == "only"))


def tasks_of(columns: Mapping[str, Sequence[str]], losses: Mapping[str, Loss]) -> tuple[Task, ...]:
    """The tasks of some signals: `columns` are those of each signal, in order, and `losses` how each is learned.

    >>> [task.name for task in tasks_of({"rouge": ["p", "r"], "nli": ["yes", "no"]}, {"rouge": "each", "nli": "joint"})]
    ['p', 'r', 'nli']
    """
    tasks: list[Task] = []
    for signal, names in columns.items():
        loss = Loss(losses[signal])
        if loss is Loss.EACH:
            tasks += [Task(name, signal, (name,), loss) for name in names]
        else:
            tasks.append(Task(signal, signal, tuple(names), loss))
    return tuple(tasks)


def columns_of(tasks: Sequence[Task]) -> tuple[str, ...]:
    """Columns of all `tasks`, in order."""
    return tuple(column for task in tasks for column in task.columns)


def fit_scaling(targets: numpy.ndarray, tasks: Sequence[Task], standardise: bool) -> Scaling:
    """Scaling of the regression columns of `targets` (rows, columns); a constant column keeps deviation 1."""
    columns = len(columns_of(tasks))
    mean, deviation = numpy.zeros(columns), numpy.ones(columns)
    start = 0
    for task in tasks:
        stop = start + len(task.columns)
        if standardise and task.loss is not Loss.DISTRIBUTION:
            mean[start:stop] = targets[:, start:stop].mean(0, dtype=numpy.float64)
            spread = targets[:, start:stop].std(0, dtype=numpy.float64)
            deviation[start:stop] = numpy.where(spread > 1e-6, spread, 1.0)
        start = stop
    return Scaling(tuple(mean.tolist()), tuple(deviation.tolist()))


def multitask_loss(
    predicted: torch.Tensor, targets: torch.Tensor, tasks: Sequence[Task], weights: Mapping[str, float]
) -> torch.Tensor:
    """Mean over the batch of the sum over tasks of gamma * loss; both tensors are (batch, columns), targets scaled.

    `weights` is the gamma of each signal. A worked example with one pair: `bleu` (weight 1) is off by 0.5 and costs
    0.25. `rouge` (weight 2, joint) is off by 1, 2 and 2 and costs 2 * (1 + 4 + 4) / 3 = 6. For `flag` (weight 1) the
    head says 0 and 0, which is probability 1/2 each, and any target costs ln 2 = 0.69. The loss is 6.94.

    >>> columns = {"bleu": ["bleu"], "rouge": ["p", "r", "f"], "flag": ["back", "mask"]}
    >>> tasks = tasks_of(columns, {"bleu": Loss.JOINT, "rouge": Loss.JOINT, "flag": Loss.DISTRIBUTION})
    >>> predicted = torch.tensor([[0.5, 1.0, 2.0, 2.0, 0.0, 0.0]])
    >>> targets = torch.tensor([[1.0, 0.0, 0.0, 0.0, 1.0, 0.0]])
    >>> round(float(multitask_loss(predicted, targets, tasks, {"bleu": 1.0, "rouge": 2.0, "flag": 1.0})), 2)
    6.94
    """
    total = predicted.new_zeros(())
    start = 0
    for task in tasks:
        stop = start + len(task.columns)
        guess, truth = predicted[:, start:stop], targets[:, start:stop]
        if task.loss is Loss.DISTRIBUTION:
            loss = torch.nn.functional.cross_entropy(guess, truth)
        else:
            loss = torch.nn.functional.mse_loss(guess, truth)
        total = total + weights[task.signal] * loss
        start = stop
    return total


def named_signals(outputs: Sequence[float], targets: Targets) -> dict[str, dict[str, float]]:
    """One pair's outputs of a pre-training head as signal -> column -> value, in the signals' own units.

    The scaling of regressions is undone; a distribution becomes probabilities, which sum to 1.

    >>> tasks = tasks_of({"bleu": ["bleu"], "flag": ["back", "mask"]}, {"bleu": Loss.JOINT, "flag": Loss.DISTRIBUTION})
    >>> named_signals([1.5, 0.0, 0.0], Targets(tasks, Scaling((0.25, 0.0, 0.0), (0.5, 1.0, 1.0))))
    {'bleu': {'bleu': 1.0}, 'flag': {'back': 0.5, 'mask': 0.5}}
    """
    found: dict[str, dict[str, float]] = {}
    start = 0
    for task in targets.tasks:
        places = slice(start, start + len(task.columns))
        values = numpy.array(outputs[places]) * targets.scaling.deviation[places] + targets.scaling.mean[places]
        if task.loss is Loss.DISTRIBUTION:
            values = torch.softmax(torch.from_numpy(values), 0).numpy()
        found.setdefault(task.signal, {}).update(zip(task.columns, values.tolist(), strict=True))
        start = places.stop
    return found
