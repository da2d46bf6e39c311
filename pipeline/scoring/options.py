"""What each option of speed is worth, for `bleurt bench`: times over today's plain kernels, and how far scores move."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from pipeline.core import kernels
from pipeline.metric.prediction import Replicas
from pipeline.scoring.scorer import BleurtScorer
from pipeline.statistics.correlation import kendall

PLAIN = "plain kernels"
"""Our scorer in single precision with the linear layers of torch, as before layers were packed."""

Way = tuple[int, Callable[[], Any]]


@dataclass(frozen=True)
class Moved:
    """How far an option's scores are from those of plain kernels.

    `mean` and `largest` distance of a pair. `kendall`: tau-b with the ratings minus that of plain kernels; None if all
    pairs have one rating.
    """

    mean: float
    largest: float
    kendall: float | None

    def __str__(self) -> str:
        """A line of `bleurt bench`."""
        change = "" if self.kendall is None else f", Kendall's tau by {self.kendall:+.4f}"
        return f"scores move by {self.mean:.1e} on average, {self.largest:.1e} at most{change}"


def option_ways(checkpoint: str, pairs: Sequence[tuple[str, str]]) -> dict[str, Way]:
    """Name of an option -> how many pairs it scores, and the function that scores them; only what this CPU can do."""
    references, candidates = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    able = {"bf16": kernels.has_bf16(), "int8": kernels.has_int8()}
    scorers = {PLAIN: _plain(checkpoint)}
    scorers |= {
        f"--precision {name}": BleurtScorer(checkpoint, device="cpu", precision=name) for name in able if able[name]
    }
    return {name: (len(pairs), _scoring(scorer, references, candidates)) for name, scorer in scorers.items()}


def _scoring(scorer: BleurtScorer, references: list[str], candidates: list[str]) -> Callable[[], list[float]]:
    return lambda: scorer.score(references, candidates)


def _plain(checkpoint: str) -> BleurtScorer:
    scorer = BleurtScorer(checkpoint, device="cpu", precision="float32")
    scorer._outputs = Replicas(scorer.model, ["cpu"], "float32").outputs
    return scorer


def moved(scores: Mapping[str, Sequence[float]], ratings: Sequence[float]) -> dict[str, Moved]:
    """How far the scores of each option are from those of PLAIN, pair by pair.

    >>> print(moved({"plain kernels": [0.0, 1.0, 2.0], "other": [0.0, 2.5, 2.0]}, [1.0, 2.0, 3.0])["other"])
    scores move by 5.0e-01 on average, 1.5e+00 at most, Kendall's tau by -0.6667
    """
    human, plain = numpy.asarray(ratings), numpy.asarray(scores[PLAIN])
    rated = len(set(ratings)) > 1
    found = {}
    for name in scores:
        mine = numpy.asarray(scores[name])
        change = kendall(human, mine) - kendall(human, plain) if rated else None
        apart = abs(mine - plain)
        found[name] = Moved(float(apart.mean()), float(apart.max()), change)
    return found
