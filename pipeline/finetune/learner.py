"""What fine-tuning minimises: squared error (paper, section 3), of each corpus by its own scale and noise."""

import math
from collections.abc import Sequence

import numpy
import torch
from numpy.typing import NDArray


def rating_loss(predicted: torch.Tensor, ratings: torch.Tensor) -> torch.Tensor:
    """Mean squared error over the ratings that are known (not NaN); both tensors are (batch, aspects)."""
    known = ~torch.isnan(ratings)
    return torch.nn.functional.mse_loss(predicted[known], ratings[known])


class Learner(torch.nn.Module):
    """A metric under training, and what is learned beside it of each corpus of `own_scale`.

    People of another campaign use their scale in another way: what the metric must predict for a corpus with a scale of
    its own is `offset + factor * output`. They also agree with each other more or less. So the squared errors of each
    group of corpora count in inverse proportion to their own size, or ratings with much noise would drown the others
    (the likelihood of normal errors whose variance is learned; Kendall et al. 2018). `QUICK` makes these
    numbers move faster than weights, as Adam moves each by about the rate. Without `own_scale` the loss is the squared
    error.
    """

    QUICK = 50.0

    def __init__(
        self, metric: torch.nn.Module, own_scale: Sequence[str], corpora: Sequence[str], targets: torch.Tensor
    ) -> None:
        super().__init__()
        self.metric, self.config, self.targets = metric, metric.config, targets
        self.own = list(own_scale)
        numbers = {corpus: number for number, corpus in enumerate(own_scale, 1)}
        self.groups = torch.tensor([numbers.get(corpus, 0) for corpus in corpora])
        self.learned = torch.nn.ParameterDict()
        if self.own:
            size = 1 + len(self.own)
            self.learned = torch.nn.ParameterDict(
                {name: torch.nn.Parameter(torch.zeros(size)) for name in ("offset", "factor", "variance")}
            )
        spread = [targets[self.groups == group] for group in range(1 + len(self.own))]
        self.variances = torch.tensor([float(one[~torch.isnan(one)].var()) if len(one) > 1 else 1.0 for one in spread])

    def scale(self, group: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Offset, factor and logarithm of the errors' variance of groups; group 0, the rest, has offset 0, factor 1."""
        own = (group > 0).float()
        offset, factor, variance = (self.QUICK * self.learned[name][group] for name in ("offset", "factor", "variance"))
        half = torch.log(self.variances.to(group.device)[group].clamp(min=1e-3) / 2)
        return own * offset, torch.exp(own * factor), variance + half

    def forward(self, rows: NDArray[numpy.int64], **inputs: torch.Tensor) -> torch.Tensor:
        """The mean loss of a batch; `rows` are numbers of pairs."""
        predicted: torch.Tensor = self.metric(**inputs).logits
        targets = self.targets[rows].to(predicted.device)
        if not self.own:
            return rating_loss(predicted, targets)
        offset, factor, variance = (one.unsqueeze(1) for one in self.scale(self.groups[rows].to(predicted.device)))
        known = ~torch.isnan(targets)
        errors = torch.exp(-variance) * (offset + factor * predicted - targets.nan_to_num()) ** 2 + variance
        return errors[known].mean()

    def facts(self) -> dict[str, dict[str, float]]:
        """What was learned of each corpus, for training.json."""
        found = {}
        for number, corpus in enumerate(["", *self.own] if self.own else []):
            numbers = [one.item() for one in self.scale(torch.tensor(number))]
            found[corpus or "others"] = {"offset": numbers[0], "factor": numbers[1], "variance": math.exp(numbers[2])}
        return found
