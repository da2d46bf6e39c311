"""Checkpoints: loaded by the Auto classes, scored in any batching, heads carried over, damage named."""

import json
from pathlib import Path

import numpy
import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from tiny_filler import save_tiny_filler
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

from pipeline.core.errors import ModelError, ParamsError, StorageError
from pipeline.core.models import load_tokenizer
from pipeline.metric.checkpoint import (
    HEADS,
    TARGETS,
    Head,
    head_of,
    keep_heads,
    load_metric,
    new_metric,
    read_targets,
    save_metric,
    save_targets,
    start_from,
    with_outputs,
)
from pipeline.metric.pairs import encode_pairs
from pipeline.metric.prediction import predict
from pipeline.metric.tasks import Loss, Scaling, Targets, tasks_of

REFERENCES = ["the cat sat on the mat.", "a dog ran.", "the small red house", "the bird sat"]
CANDIDATES = ["the cat sat.", "", "the small house was red", "the bird sat on the red mat on the house"]

TASKS = tasks_of({"bleu": ["bleu"], "flag": ["flag_a", "flag_b"]}, {"bleu": Loss.JOINT, "flag": Loss.DISTRIBUTION})
TARGETS_OF_START = Targets(TASKS, Scaling((0.5, 0.0, 0.0), (2.0, 1.0, 1.0)))


@pytest.fixture(params=Head)
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A pre-trained checkpoint with three outputs, of either head."""
    encoder = save_tiny_filler(tmp_path / "encoder")
    model = new_metric(str(encoder), request.param, ["bleu", "flag_a", "flag_b"], dropout=0.1, seed=3)
    folder = tmp_path / "pretrained"
    save_metric(model, load_tokenizer(encoder), folder)
    save_targets(folder, TARGETS_OF_START)
    return folder


@pytest.mark.parametrize("head", Head)
def test_an_encoder_in_half_precision_learns_in_float32(tmp_path: Path, head: Head) -> None:
    folder = save_tiny_filler(tmp_path / "encoder")
    model = AutoModel.from_pretrained(folder)
    model.half().save_pretrained(folder)
    assert json.loads((folder / "config.json").read_text())["dtype"] == "float16"
    metric = new_metric(str(folder), head, ["score"], 0.0, 1)
    save_metric(metric, load_tokenizer(folder), tmp_path / "metric")
    for one in (metric, load_metric(tmp_path / "metric")):
        assert {weight.dtype for weight in one.parameters()} == {torch.float32}


def test_scores_equal_transformers_one_pair_at_a_time(start: Path) -> None:
    model = AutoModelForSequenceClassification.from_pretrained(start).eval()
    tokenizer = AutoTokenizer.from_pretrained(start)
    with torch.inference_mode():
        expected = [
            model(**tokenizer([r], [c], return_tensors="pt")).logits[0].numpy()
            for r, c in zip(REFERENCES, CANDIDATES, strict=True)
        ]
    for batch_tokens in (1, 60, 10_000):
        found = predict(start, REFERENCES, CANDIDATES, max_tokens=64, batch_tokens=batch_tokens)
        numpy.testing.assert_allclose(found, numpy.array(expected), atol=1e-5)


def test_a_new_head_depends_on_the_seed_alone_and_the_encoder_is_kept(start: Path) -> None:
    first, second = (with_outputs(start, ["adequacy"], 0.1, seed=5) for _ in range(2))
    assert torch.equal(first.classifier.weight, second.classifier.weight)
    assert first.classifier.weight.shape == (1, load_file(start / "model.safetensors")["classifier.weight"].shape[1])
    name = f"{first.base_model_prefix}.encoder.layer.0.output.dense.weight"
    assert torch.equal(first.state_dict()[name], load_file(start / "model.safetensors")[name])


def test_scores_under_bf16_are_not_rounded_to_it(start: Path) -> None:
    model = load_metric(start, "cpu")
    encoded = encode_pairs(load_tokenizer(start), REFERENCES, CANDIDATES, max_tokens=64)
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(**encoded.batch(range(4), "cpu")).logits
    assert logits.dtype == torch.float32 and not torch.equal(logits, logits.bfloat16().float())


def test_the_pretraining_head_travels_with_the_finetuned_model(start: Path, tmp_path: Path) -> None:
    model = with_outputs(start, ["adequacy"], 0.1, seed=5)
    save_metric(model, load_tokenizer(start), tmp_path / "fine")
    keep_heads(start, tmp_path / "fine")
    head = load_file(tmp_path / "fine" / HEADS)
    assert torch.equal(head["classifier.weight"], load_file(start / "model.safetensors")["classifier.weight"])
    assert json.loads((tmp_path / "fine" / TARGETS).read_text())["mean"] == [0.5, 0.0, 0.0]
    assert read_targets(tmp_path / "fine") == TARGETS_OF_START


def test_targets_that_do_not_describe_a_head_are_refused(start: Path) -> None:
    written = json.loads((start / TARGETS).read_text())
    older = {name: value for name, value in written.items() if name != "tasks"}
    (start / TARGETS).write_text(json.dumps(older))
    with pytest.raises(ModelError, match=r"names no tasks, because an older version wrote it; train again\.$"):
        read_targets(start)
    for wrong in ({"columns": ["bleu"]}, {"mean": [0.5]}, {"tasks": [{"name": "bleu"}]}, {"deviation": None}):
        (start / TARGETS).write_text(json.dumps(written | wrong))
        with pytest.raises(ModelError, match=r"targets\.json: does not describe a pre-training head\.$"):
            read_targets(start)


def test_truncated_pairs_are_counted(start: Path) -> None:
    encoded = encode_pairs(load_tokenizer(start), REFERENCES, CANDIDATES, max_tokens=14)
    assert max(encoded.lengths) == 14
    full = [len(row) for row in load_tokenizer(start)(REFERENCES, CANDIDATES)["input_ids"]]
    assert encoded.truncated == sum(length > 14 for length in full) > 0


def test_ten_thousand_words_are_cut_not_crashed_on(start: Path) -> None:
    scores = predict(start, ["the cat"], ["the dog " * 5000], max_tokens=64, batch_tokens=128)
    assert scores.shape == (1, 3) and numpy.isfinite(scores).all()


def test_damaged_weights_are_one_sentence(start: Path) -> None:
    (start / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(ModelError, match="cannot be loaded"):
        predict(start, ["a"], ["b"], max_tokens=16, batch_tokens=64)


def without(folder: Path, name: str) -> None:
    """Take one tensor out of the weights in `folder`."""
    weights = load_file(folder / "model.safetensors")
    del weights[name]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def test_a_checkpoint_without_its_head_is_not_scored_with_a_random_one(start: Path) -> None:
    without(start, "classifier.weight")
    with pytest.raises(ModelError, match=r"1 weights of .* are missing or of another shape, .* classifier\.weight\.$"):
        predict(start, ["a"], ["b"], max_tokens=16, batch_tokens=64)
    assert with_outputs(start, ["adequacy"], 0.1, seed=5).classifier.weight.shape[0] == 1


def test_an_encoder_with_a_hole_is_not_trained(start: Path) -> None:
    prefix = with_outputs(start, ["adequacy"], 0.1, seed=5).base_model_prefix
    without(start, f"{prefix}.encoder.layer.0.output.dense.weight")
    with pytest.raises(ModelError, match=r"the first is \w+\.encoder\.layer\.0\.output\.dense\.weight\.$"):
        with_outputs(start, ["adequacy"], 0.1, seed=5)


def test_a_folder_without_a_config_is_one_sentence(start: Path) -> None:
    (start / "config.json").unlink()
    for load in (lambda: predict(start, ["a"], ["b"], 16, 64), lambda: with_outputs(start, ["a"], 0.1, 5)):
        with pytest.raises(ModelError, match=f"^{start}: cannot be loaded "):
            load()


def test_pairs_longer_than_the_model_are_refused_by_key(start: Path) -> None:
    for wrong in (4, 1000):
        with pytest.raises(ParamsError, match=rf"^evaluate\.max_tokens: must lie between 5 and \d+ .* not {wrong}\.$"):
            predict(start, ["a"], ["b"], max_tokens=wrong, batch_tokens=64)


def test_a_full_disk_leaves_no_half_of_the_weights(start: Path, tmp_path: Path) -> None:
    model, tokenizer = with_outputs(start, ["adequacy"], 0.1, seed=5), load_tokenizer(start)

    def cut(folder: Path) -> None:
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(b"half")
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    model.save_pretrained = cut
    with pytest.raises(StorageError, match=r"model\.safetensors: could not be written, the disk is full\.$"):
        save_metric(model, tokenizer, tmp_path / "full")
    assert list((tmp_path / "full").iterdir()) == []


def test_a_last_layer_starts_from_a_column_or_an_aspect_in_its_own_units(tmp_path: Path) -> None:
    encoder = save_tiny_filler(tmp_path / "encoder")
    model = new_metric(str(encoder), Head.ALIGNMENT, ["bleu", "metric_score"], 0.0, 1)
    with torch.no_grad():
        head_of(model).weight.normal_()
    save_metric(model, load_tokenizer(encoder), tmp_path / "pretrained")
    tasks = tasks_of({"bleu": ["bleu"], "metric": ["metric_score"]}, {"bleu": Loss.JOINT, "metric": Loss.JOINT})
    save_targets(tmp_path / "pretrained", Targets(tasks, Scaling((0.0, 0.25), (1.0, 2.0))))
    pairs = ["the cat sat"], ["a cat"], 32, 64
    standardised = predict(tmp_path / "pretrained", *pairs)[0, 1]
    started = with_outputs(tmp_path / "pretrained", ["adequacy"], 0.0, 1)
    start_from(started, tmp_path / "pretrained", "metric_score")
    save_metric(started, load_tokenizer(encoder), tmp_path / "started")
    assert predict(tmp_path / "started", *pairs)[0, 0] == pytest.approx(2.0 * standardised + 0.25, rel=1e-4)
    with pytest.raises(ModelError, match="predicts no rouge, only bleu, metric_score"):
        start_from(started, tmp_path / "pretrained", "rouge")
    keep_heads(tmp_path / "pretrained", tmp_path / "started")  # as fine-tuning does
    again = with_outputs(tmp_path / "started", ["adequacy"], 0.0, 2)
    start_from(again, tmp_path / "started", "adequacy")
    save_metric(again, load_tokenizer(encoder), tmp_path / "again")
    assert predict(tmp_path / "again", *pairs)[0, 0] == predict(tmp_path / "started", *pairs)[0, 0]
    with pytest.raises(ModelError, match="predicts no metric_score, only adequacy"):
        start_from(again, tmp_path / "started", "metric_score")
