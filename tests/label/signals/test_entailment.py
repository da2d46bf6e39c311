"""Entailment against the model's own forward pass, one pair at a time."""

import shutil
from pathlib import Path

import numpy
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from pipeline.core.errors import ModelError, ParamsError
from pipeline.core.params import from_mapping
from pipeline.label.signals.entailment import Params, entailment, label_columns
from pipeline.teachers import encoder as transformer

Sentences = tuple[list[str], list[str]]


@torch.inference_mode()
def one_by_one(folder: Path, references: list[str], candidates: list[str]) -> numpy.ndarray:
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    rows = []
    for reference, candidate in zip(references, candidates, strict=True):
        inputs = tokenizer([reference], [candidate], truncation=True, max_length=40, return_tensors="pt")
        rows.append(model(**inputs).logits.softmax(-1)[0])
    return torch.stack(rows).numpy()[:, [2, 0, 1]]  # the folder's order: contradiction, neutral, entailment


def test_agrees_with_one_forward_pass_a_pair(tiny_classifier: Path, sentences: Sentences) -> None:
    references, candidates = sentences
    candidates = ["", *candidates[1:]]
    expected = one_by_one(tiny_classifier, references, candidates)
    found = entailment(references, candidates, Params(str(tiny_classifier), batch_tokens=100))
    assert found.dtype == numpy.float32
    assert numpy.abs(found - expected).max() < 1e-5
    assert found.sum(axis=1) == pytest.approx(numpy.ones(len(found)), abs=1e-6)
    assert numpy.ptp(expected, axis=0).min() > 0.01


def test_premise_and_hypothesis_are_not_exchanged(tiny_classifier: Path) -> None:
    found = entailment(["the old town", "a bridge"], ["a bridge", "the old town"], Params(str(tiny_classifier), 64))
    assert numpy.abs(found[0] - found[1]).max() > 0.01


def test_each_unique_pair_is_classified_once(tiny_classifier: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    batches = transformer.Transformer.batches

    def counted(self, encoded, rows, batch_tokens):  # type: ignore[no-untyped-def]
        for chosen, inputs in batches(self, encoded, rows, batch_tokens):
            seen.extend(chosen)
            yield chosen, inputs

    monkeypatch.setattr(transformer.Transformer, "batches", counted)
    found = entailment(["a", "the", "a", "a"], ["the", "a", "the", "a"], Params(str(tiny_classifier), 64))
    assert sorted(seen) == [0, 1, 2]
    assert found[0].tolist() == found[2].tolist()
    assert entailment([], [], Params(str(tiny_classifier), 64)).shape == (0, 3)


def test_a_segment_of_ten_thousand_words_is_cut(tiny_classifier: Path) -> None:
    long = "the old " * 5000
    found = entailment([long], ["a bridge"], Params(str(tiny_classifier), 64))
    assert numpy.abs(found - one_by_one(tiny_classifier, [long], ["a bridge"])).max() < 1e-5


@pytest.mark.parametrize(
    "labels",
    [
        {0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"},
        {0: "entailment", 1: "not_entailment"},
        {0: "entailment", 1: "neutral", 2: "contradiction", 3: "other"},
        {0: "entailment", 1: "entailment", 2: "neutral"},
    ],
)
def test_other_labels_are_refused(labels: dict[int, str]) -> None:
    with pytest.raises(ModelError) as caught:
        label_columns(labels, Path("folder"))
    names = ", ".join(labels.values())
    assert str(caught.value) == f"folder: id2label must name entailment, contradiction, neutral, not {names}."


def test_an_encoder_without_a_classifier_is_refused(tiny_encoder: Path) -> None:
    with pytest.raises(ModelError) as caught:
        entailment(["a"], ["a"], Params(str(tiny_encoder), 64))
    sentence = (
        "2 weights of BertForSequenceClassification are missing or of another shape, the first is classifier.bias."
    )
    assert str(caught.value) == f"{tiny_encoder}: {sentence}"


def test_a_folder_without_a_tokenizer_is_refused(tiny_classifier: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_classifier, tmp_path, dirs_exist_ok=True)
    for file in tmp_path.glob("tokenizer*"):
        file.unlink()
    with pytest.raises(ModelError, match=f"^{tmp_path}: holds no tokenizer\\.$"):
        entailment(["a"], ["a"], Params(str(tmp_path), 64))


def test_impossible_params_are_refused_by_name() -> None:
    with pytest.raises(ParamsError, match=r"^label\.entailment\.batch_tokens: must be at least 1, not 0\.$"):
        from_mapping({"model": "x", "batch_tokens": 0}, Params, "label.entailment")
