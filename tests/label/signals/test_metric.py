"""The signal of trained metrics: the mean of their own scores."""

from pathlib import Path

import numpy
import pyarrow
import pytest
from tiny_filler import save_tiny_filler

from pipeline.core.errors import ModelError, ParamsError
from pipeline.core.models import load_tokenizer
from pipeline.core.params import from_mapping
from pipeline.label.signals.metric import COLUMNS, Params, models, score
from pipeline.metric.checkpoint import Head, new_metric, save_metric
from pipeline.metric.prediction import predict

SETTINGS = {"max_tokens": 32, "batch_tokens": 64, "precision": "float32"}


def test_the_signal_is_the_mean_score_of_the_metrics(tmp_path: Path) -> None:
    encoder = save_tiny_filler(tmp_path / "encoder")
    folders = []
    for seed in (1, 2):
        folders.append(tmp_path / str(seed))
        save_metric(new_metric(str(encoder), Head.CLS, ["adequacy"], 0.0, seed), load_tokenizer(encoder), folders[-1])
    references, candidates = ["the cat sat", "a small dog"], ["a cat sat", "paris"]
    pairs = pyarrow.table({"reference": references, "candidate": candidates})
    params = from_mapping(SETTINGS | {"models": [str(one) for one in folders]}, Params, "label.metric")
    assert models(params) == tuple(folders)
    found = score(pairs, params)
    alone = [predict(folder, references, candidates, 32, 64) for folder in folders]
    assert found.shape == (2, len(COLUMNS)) and found.dtype == numpy.float32
    assert not numpy.allclose(alone[0], alone[1])
    numpy.testing.assert_allclose(found, (alone[0] + alone[1]) / 2, rtol=1e-5)


def test_there_is_at_least_one_metric() -> None:
    with pytest.raises(ParamsError, match=r"^label\.metric\.models: "):
        from_mapping(SETTINGS | {"models": []}, Params, "label.metric")


@pytest.mark.parametrize("reads", ["source", "both"])
def test_a_checkpoint_that_reads_sources_is_refused_before_any_work(reads: str, tmp_path: Path) -> None:
    encoder = save_tiny_filler(tmp_path / "encoder")
    metric = new_metric(str(encoder), Head.CLS, ["adequacy"], 0.0, 1)
    metric.config.reads = reads
    save_metric(metric, load_tokenizer(encoder), tmp_path / "qe")
    params = from_mapping(SETTINGS | {"models": [str(tmp_path / "qe")]}, Params, "label.metric")
    with pytest.raises(ModelError) as caught:
        models(params)
    sentence = "reads the source of a candidate, and synthetic pairs have none."
    assert str(caught.value) == f"label.metric.models: {tmp_path / 'qe'} {sentence}"
