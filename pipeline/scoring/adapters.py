"""The metric in other frameworks: Hugging Face `evaluate` and torchmetrics. This module needs neither to be imported.

bleurt = EvaluateMetric()                                   # also inside evaluate.combine([bleurt, "sacrebleu"])
bleurt.compute(predictions=["A cat."], references=["The cat."])        -> {"scores": [0.4], "score": 0.4, …}

from pipeline.scoring.adapters import TorchMetric           # a torchmetrics.Metric; needs the package torchmetrics
metric = TorchMetric()
metric.update(["A cat."], ["The cat."])                     # candidates, then references, as in torchmetrics
metric.compute()                                            -> the mean over all segments, a tensor
"""

import importlib
from collections.abc import Sequence
from typing import Any

from pipeline.core.errors import BleurtError
from pipeline.scoring.scorer import BleurtScorer

References = Sequence[str | Sequence[str]]


class EvaluateMetric:
    """What `evaluate.load` returns, as far as callers use it, without the library.

    `settings` are BleurtScorer's. Predictions and references are given to `compute`, or before it to `add` and
    `add_batch`. A reference is a text, or a list of texts if there are several.
    """

    name = "bleurt"
    description = "How close predictions come to references, as people would rate it; higher is better."
    inputs_description = "predictions: list of str. references: list of str, or of lists of str."

    def __init__(self, scorer: BleurtScorer | None = None, **settings: Any) -> None:
        self.scorer = scorer or BleurtScorer(**settings)
        self._predictions: list[str] = []
        self._references: list[str | Sequence[str]] = []

    def add(self, *, prediction: Any = None, reference: Any = None, **named: Any) -> None:
        """One more segment for the next `compute`; evaluate.combine names the two `predictions` and `references`."""
        one, other = named.pop("predictions", prediction), named.pop("references", reference)
        if named:
            raise TypeError(f"add() got an unexpected keyword argument {next(iter(named))!r}")
        self.add_batch(predictions=[one], references=[other])

    def add_batch(self, *, predictions: Sequence[str], references: References) -> None:
        """More segments for the next `compute`."""
        self._predictions += list(predictions)
        self._references += list(references)

    def compute(
        self, *, predictions: Sequence[str] | None = None, references: References | None = None
    ) -> dict[str, Any]:
        """`scores` of all segments since the last `compute`, their mean `score` and the `signature`."""
        if predictions is not None or references is not None:
            self.add_batch(
                predictions=[] if predictions is None else predictions,
                references=[] if references is None else references,
            )
        given, wanted = self._predictions, self._references
        self._predictions, self._references = [], []
        scores = self.scorer.score(wanted, given)
        mean = sum(scores) / len(scores) if scores else None
        return {"scores": scores, "score": mean, "signature": str(self.scorer.signature())}

    def _feature_names(self) -> list[str]:
        """Inputs that evaluate.combine passes on."""
        return ["predictions", "references"]


def _torch_metric() -> type:
    """Make the class TorchMetric; a BleurtError if torchmetrics is not installed."""
    try:
        base = importlib.import_module("torchmetrics").Metric
    except ImportError as error:
        raise BleurtError(
            "The adapter TorchMetric needs the package torchmetrics: pip install torchmetrics."
        ) from error
    import torch

    class TorchMetric(base):  # type: ignore[misc, valid-type]
        """Mean score over all segments, also of several processes. `settings` are BleurtScorer's."""

        is_differentiable = False
        higher_is_better = True
        full_state_update = False

        def __init__(self, scorer: BleurtScorer | None = None, **settings: Any) -> None:
            super().__init__()
            self.scorer = scorer or BleurtScorer(**settings)
            self.add_state("total", default=torch.tensor(0.0, dtype=torch.float64), dist_reduce_fx="sum")
            self.add_state("segments", default=torch.tensor(0), dist_reduce_fx="sum")

        def update(self, preds: str | Sequence[str], target: str | References) -> None:
            """Score candidates against references: two texts, or two lists; a reference may be a list of texts."""
            candidates = [preds] if isinstance(preds, str) else preds
            references: Any = [target] if isinstance(preds, str) else target
            scores = self.scorer.score(references, candidates)
            self.total += sum(scores)
            self.segments += len(scores)

        def compute(self) -> torch.Tensor:
            """Mean score of all segments, float32; NaN if there is none."""
            mean: torch.Tensor = self.total / self.segments
            return mean.float()

    TorchMetric.__module__, TorchMetric.__qualname__ = __name__, "TorchMetric"
    return TorchMetric


def __getattr__(name: str) -> Any:
    """`TorchMetric`, made when it is first asked for."""
    if name != "TorchMetric":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, _torch_metric())
