"""The alignment head: matching by hand, indifference to padding, encoders of other families, loading elsewhere."""

import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import torch
from tiny_filler import save_tiny_filler
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from pipeline.core.errors import ModelError
from pipeline.core.models import load_tokenizer
from pipeline.metric.alignment import SPREAD, AlignmentMetric, match
from pipeline.metric.checkpoint import Head, new_metric, save_metric

PAIRS = [("the cat sat on the mat.", "the cat sat."), ("a dog ran.", ""), ("the small red house", "the small house")]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    encoder = save_tiny_filler(tmp_path / "encoder")
    model = new_metric(str(encoder), Head.ALIGNMENT, ["score"], dropout=0.1, seed=3)
    save_metric(model, load_tokenizer(encoder), tmp_path / "metric")
    return tmp_path / "metric"


def test_matching_by_hand() -> None:
    # Reference words at 0 and 60 degrees, one candidate word at 0: precision 1, recall (1 + 1/2) / 2.
    hidden = torch.tensor([[[9.0, 9.0], [2.0, 0.0], [1.0, 3**0.5], [3.0, 0.0], [9.0, 9.0]]])
    references = torch.tensor([[False, True, True, False, False]])
    candidates = torch.tensor([[False, False, False, True, False]])
    precision, recall = 1.0, 0.75
    expected = [precision, recall, 2 * precision * recall / (precision + recall)]
    torch.testing.assert_close(match(hidden, references, candidates), torch.tensor([expected]))


def test_a_side_without_words_matches_nothing() -> None:
    nothing, something = torch.zeros(1, 2, dtype=torch.bool), torch.ones(1, 2, dtype=torch.bool)
    for sides in ((something, nothing), (nothing, something), (nothing, nothing)):
        assert match(torch.ones(1, 2, 4), *sides).tolist() == [[0.0, 0.0, 0.0]]


def test_a_new_head_starts_as_the_f_measure(tmp_path: Path) -> None:
    model = new_metric(str(save_tiny_filler(tmp_path)), Head.ALIGNMENT, ["a", "b"], dropout=0.1, seed=3)
    weight = model.classifier.weight.detach().clone()
    torch.testing.assert_close(SPREAD * weight[:, -1], torch.tensor([4.0, 4.0]))
    weight[:, -1] = 0
    assert not weight.any()


def test_padding_and_the_other_rows_change_nothing(checkpoint: Path) -> None:
    model, tokenizer = AutoModelForSequenceClassification.from_pretrained(checkpoint).eval(), load_tokenizer(checkpoint)
    references, candidates = map(list, zip(*PAIRS, strict=True))
    with torch.inference_mode():
        together = model(**tokenizer(references, candidates, padding=True, return_tensors="pt")).logits[:, 0]
        alone = [model(**tokenizer([r], [c], return_tensors="pt")).logits[0, 0] for r, c in PAIRS]
    numpy.testing.assert_allclose(together.numpy(), numpy.array(alone), atol=1e-5)


def test_segments_are_found_by_the_separator_where_there_are_no_types(checkpoint: Path) -> None:
    model, tokenizer = AutoModelForSequenceClassification.from_pretrained(checkpoint).eval(), load_tokenizer(checkpoint)
    inputs = tokenizer([r for r, _ in PAIRS], [c for _, c in PAIRS], padding=True, return_tensors="pt")
    mask = inputs["attention_mask"]
    by_type = model._words(inputs["input_ids"], mask, inputs["token_type_ids"])
    by_separator = model._words(inputs["input_ids"], mask, None)
    for one, other in zip(by_type, by_separator, strict=True):
        assert torch.equal(one, other) and one.any()


def test_an_encoder_without_a_separator_is_refused(tmp_path: Path) -> None:
    folder = save_tiny_filler(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.sep_token = None
    tokenizer.save_pretrained(folder)
    with pytest.raises(ModelError, match="no separator token"):
        new_metric(str(folder), Head.ALIGNMENT, ["score"], dropout=0.1, seed=3)


def test_the_folder_loads_without_this_project(checkpoint: Path) -> None:
    code = f"""
import sys
from transformers import AutoModelForSequenceClassification, AutoTokenizer
model = AutoModelForSequenceClassification.from_pretrained({str(checkpoint)!r}, trust_remote_code=True).eval()
tokenizer = AutoTokenizer.from_pretrained({str(checkpoint)!r})
assert not any(name.split(".")[0] == "pipeline" for name in sys.modules)
print(model(**tokenizer("the cat sat", "the cat", return_tensors="pt")).logits.item())
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    model, tokenizer = AutoModelForSequenceClassification.from_pretrained(checkpoint).eval(), load_tokenizer(checkpoint)
    assert isinstance(model, AlignmentMetric)
    expected = model(**tokenizer("the cat sat", "the cat", return_tensors="pt")).logits.item()
    assert float(found.stdout) == pytest.approx(expected, abs=1e-5)
