"""The stored metric: half precision on disk, the same scores, everything that belongs to a checkpoint."""

from pathlib import Path

import numpy
import pytest
import torch
from safetensors.torch import load_file
from tiny_filler import save_tiny_filler

from pipeline.bundled import metric
from pipeline.core.errors import ModelError
from pipeline.core.models import load_tokenizer
from pipeline.core.records import RATINGS
from pipeline.core.shards import shard_name, table_of, write_shard
from pipeline.metric.checkpoint import HEADS, TARGETS, Head, keep_heads, new_metric, save_metric, save_targets
from pipeline.metric.prediction import predict
from pipeline.metric.tasks import Loss, Scaling, Targets, tasks_of


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a checkpoint, `metric`, and ratings of three pairs."""
    encoder = save_tiny_filler(tmp_path / "encoder")
    pretrained = tmp_path / "pretrained"
    save_metric(new_metric(str(encoder), Head.ALIGNMENT, ["bleu"], 0.1, 3), load_tokenizer(encoder), pretrained)
    save_targets(pretrained, Targets(tasks_of({"bleu": ["bleu"]}, {"bleu": Loss.JOINT}), Scaling((0.5,), (2.0,))))
    save_metric(new_metric(str(encoder), Head.ALIGNMENT, ["a"], 0.1, 4), load_tokenizer(encoder), tmp_path / "metric")
    keep_heads(pretrained, tmp_path / "metric")
    rows = [
        {
            **dict.fromkeys(RATINGS.names),
            "rating_id": f"own/{i}",
            "corpus": "own",
            "split": "test",
            "aspect": "adequacy",
        }
        | {"reference": "the cat sat on the mat.", "other_references": [], "candidate": text, "score": 0.5}
        for i, text in enumerate(["the cat sat.", "a dog ran.", ""])
    ]
    write_shard(tmp_path / "ratings" / shard_name(0), table_of(rows, RATINGS))
    return tmp_path


def test_half_precision_keeps_the_scores(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric, "MAX_TOKENS", 32)
    monkeypatch.setattr(metric, "LARGEST_CHANGE", 0.02)  # the tiny model's weights and scores are large
    change = metric.store([project / "metric"], project / "ratings", project / "out")
    weights = load_file(project / "out" / "model.safetensors")
    assert {w.dtype for n, w in weights.items() if n.startswith("encoder.") and w.ndim == 2} == {torch.float16}
    assert weights["classifier.weight"].dtype == torch.float32
    pairs = ["the cat sat on the mat."], ["a dog ran."]
    before, after = (predict(project / name, *pairs, 32, 64) for name in ("metric", "out"))
    assert 0 < numpy.abs(before - after).max() <= change <= metric.LARGEST_CHANGE
    for name in (HEADS, TARGETS):
        assert (project / "out" / name).read_bytes() == (project / "metric" / name).read_bytes()


def test_several_checkpoints_are_averaged(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric, "MAX_TOKENS", 32)
    monkeypatch.setattr(metric, "LARGEST_CHANGE", 9.9)
    encoder = project / "encoder"
    other = new_metric(str(encoder), Head.ALIGNMENT, ["a"], 0.1, 5)
    torch.nn.init.ones_(other.classifier.weight)
    save_metric(other, load_tokenizer(encoder), project / "other")
    metric.store([project / "metric", project / "other"], project / "ratings", project / "out")
    one, two, mean = (load_file(project / name / "model.safetensors") for name in ("metric", "other", "out"))
    expected = (one["classifier.weight"] + two["classifier.weight"]) / 2
    assert torch.allclose(mean["classifier.weight"], expected)
    wider = new_metric(str(encoder), Head.ALIGNMENT, ["a", "b"], 0.1, 5)
    save_metric(wider, load_tokenizer(encoder), project / "wider")
    with pytest.raises(ModelError, match="wider: has other weights than"):
        metric.store([project / "metric", project / "wider"], project / "ratings", project / "out")


def test_a_change_that_shows_stores_nothing(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric, "MAX_TOKENS", 32)
    monkeypatch.setattr(metric, "LARGEST_CHANGE", 0.0)
    with pytest.raises(ModelError, match="half precision changes a score by "):
        metric.store([project / "metric"], project / "ratings", project / "out")
    assert not (project / "out").exists()
