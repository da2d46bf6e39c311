"""Adapters: what evaluate's callers use, and a torchmetrics Metric, with or without these libraries here."""

import copy
import importlib
import importlib.util
import pickle
import sys
import types
from typing import Any

import numpy
import pandas
import pytest
import torch

from pipeline.core.errors import BleurtError
from pipeline.scoring import adapters
from pipeline.scoring.adapters import EvaluateMetric
from pipeline.scoring.scorer import BleurtScorer

Texts = list[str]


class StandIn(torch.nn.Module):
    """The part of torchmetrics.Metric that its subclasses rely on: states with defaults, reset, forward."""

    def __init__(self) -> None:
        super().__init__()
        self.defaults: dict[str, torch.Tensor] = {}
        self.reductions: dict[str, str] = {}

    def add_state(self, name: str, default: torch.Tensor, dist_reduce_fx: str) -> None:
        self.defaults[name], self.reductions[name] = default, dist_reduce_fx
        setattr(self, name, default.clone())

    def reset(self) -> None:
        for name, default in self.defaults.items():
            setattr(self, name, default.clone())

    def forward(self, *given: Any) -> Any:
        before = {name: getattr(self, name) for name in self.defaults}
        self.reset()
        self.update(*given)
        value = self.compute()
        for name, state in before.items():
            setattr(self, name, getattr(self, name) + state)
        return value


@pytest.fixture
def torch_metric(monkeypatch: pytest.MonkeyPatch) -> type:
    """TorchMetric on torchmetrics' own Metric where it is installed, else on the stand-in."""
    if importlib.util.find_spec("torchmetrics") is None:
        module = types.ModuleType("torchmetrics")
        monkeypatch.setattr(module, "Metric", StandIn, raising=False)
        monkeypatch.setitem(sys.modules, "torchmetrics", module)
    monkeypatch.delitem(vars(adapters), "TorchMetric", raising=False)
    return adapters.TorchMetric


def test_evaluate_computes_what_the_scorer_scores(scorer: BleurtScorer, references: Texts, candidates: Texts) -> None:
    found = EvaluateMetric(scorer).compute(predictions=candidates, references=references)
    expected = scorer.score(references, candidates)
    assert found == {"scores": expected, "score": sum(expected) / 5, "signature": str(scorer.signature())}


def test_evaluate_takes_batches_single_segments_and_several_references(scorer: BleurtScorer) -> None:
    metric = EvaluateMetric(scorer)
    metric.add_batch(predictions=["the cat", "a dog"], references=["a cat", ["the dog", "a dog"]])
    metric.add(prediction="paris", reference="the house")
    metric.add(predictions="paris", references="the house")  # as evaluate.combine calls it
    with pytest.raises(TypeError, match="unexpected keyword argument 'sources'"):
        metric.add(prediction="a", reference="b", sources="c")
    expected = scorer.score(["a cat", ["the dog", "a dog"], "the house"], ["the cat", "a dog", "paris"])
    assert metric.compute()["scores"] == [*expected, expected[-1]]
    assert metric.compute()["scores"] == []


def test_arrays_and_columns_are_lists_too(scorer: BleurtScorer, references: Texts, candidates: Texts) -> None:
    expected = scorer.score(references, candidates)
    frame = pandas.DataFrame({"z": references, "c": candidates}, index=range(7, 12))
    assert scorer.score(frame.z, frame.c, sources=frame.c) == expected
    metric = EvaluateMetric(scorer)
    assert metric.compute(predictions=numpy.array(candidates), references=frame.z)["scores"] == expected


def test_evaluate_combines_it_with_others(scorer: BleurtScorer, references: Texts, candidates: Texts) -> None:
    """As evaluate.CombinedEvaluations does: by the names of the inputs, keywords alone."""
    metric = EvaluateMetric(scorer)
    given = {"predictions": candidates, "references": references, "more": 1}
    chosen = {name: given[name] for name in metric._feature_names()}
    assert (metric.name, metric.compute(**chosen)["scores"]) == ("bleurt", scorer.score(references, candidates))


def test_torchmetrics_adds_up_updates(
    torch_metric: type, scorer: BleurtScorer, references: Texts, candidates: Texts
) -> None:
    metric = torch_metric(scorer)
    metric.update(candidates[:2], references[:2])
    metric.update(candidates[2:], [[text] for text in references[2:]])
    expected = scorer.score(references, candidates)
    assert metric.compute() == pytest.approx(sum(expected) / 5, abs=1e-6)
    assert metric("the cat", "a dog") == pytest.approx(scorer.score(["a dog"], ["the cat"])[0], abs=1e-6)
    assert int(metric.segments) == 6
    metric.reset()
    metric.update("the cat", "a dog")
    assert metric.compute() == pytest.approx(scorer.score(["a dog"], ["the cat"])[0], abs=1e-6)
    assert (metric.higher_is_better, metric.is_differentiable, metric.full_state_update) == (True, False, False)


def test_a_torchmetrics_metric_can_be_cloned_and_sent(torch_metric: type, scorer: BleurtScorer) -> None:
    metric = torch_metric(scorer)
    metric.update("the cat", "a dog")
    for other in (copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))):
        assert (type(other), int(other.segments)) == (torch_metric, 1)
        assert other.compute() == metric.compute()


def test_without_torchmetrics_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchmetrics", None)
    monkeypatch.delitem(vars(adapters), "TorchMetric", raising=False)
    with pytest.raises(BleurtError, match="needs the package torchmetrics: pip install torchmetrics"):
        _ = adapters.TorchMetric
    with pytest.raises(AttributeError, match="no attribute 'Torch'"):
        _ = adapters.Torch
