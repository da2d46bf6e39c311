"""YiSi against the authors' program on its own test, and by hand; how layer and alpha are chosen."""

import os
from pathlib import Path
from typing import Any

import numpy
import pytest
from tiny_bert import sentences, tiny_encoder

from pipeline.core.errors import InputError, ModelError
from pipeline.core.params import from_mapping
from pipeline.evaluate.metrics import Metric, Texts, known_metrics, settle
from pipeline.evaluate.metrics.yisi import ALPHA, ALPHAS, Settled, kendalls
from pipeline.evaluate.phrases import f_score, learn_weights, precision_recall
from pipeline.evaluate.predictions import score_rows, score_segments
from pipeline.evaluate.similarities import Spelling, States, Tokens, common_substring, compared
from pipeline.statistics.correlation import kendall
from pipeline.teachers.word_vectors import load_word_vectors

__all__ = ["sentences", "tiny_encoder"]

ONE = {"layer": None, "vectors": None, "alpha": 0.8, "comb_alpha": 0.7, "longest": 3, "tokens": "blanks"}


def settled(metric: Metric, validation: list[dict[str, Any]] | None = None, **values: Any) -> Settled:
    assert metric.section is not None
    params = from_mapping(values, metric.section.params, "evaluate")
    found = settle([metric], {metric.section.name: params}, validation or [], 256)
    assert found.failed == {}
    kept: Settled = found.settings[metric.section.name]
    return kept


@pytest.fixture(scope="module")
def oracle() -> Path:
    """The authors' own test: chikiulo/yisi, `make test_yisi`; alpha 0.8, n-grams of 3, IDF of the files."""
    data = os.environ.get("BLEURT_TEST_DATA")
    folder = Path(data or ".").parent / "oracle" / "yisi"
    if not data or not folder.is_dir():
        pytest.skip("the oracle of YiSi is not here: it lies beside BLEURT_TEST_DATA, in oracle/yisi")
    return folder


def lines(file: Path) -> tuple[str, ...]:
    return tuple(file.read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize("number", [0, 1, 2])
def test_every_sentence_and_the_document_are_those_of_the_authors_program(oracle: Path, number: int) -> None:
    english, german = (str(oracle / f"mini.d300.{language}.gz") for language in ("en", "de"))
    values: dict[str, Any] = {"alpha": 0.8, "longest": 3, "tokens": "blanks"}
    if number == 1:
        values = ONE | {"model": "none", "vectors": english}
    if number == 2:
        values |= {"model": "none", "layer": None, "source_vectors": german, "candidate_vectors": english}
    metric = known_metrics()[f"yisi{number}"]
    references = tuple((text,) for text in lines(oracle / "test_ref.en"))
    texts = Texts(references, lines(oracle / "test_inp.de"), lines(oracle / "test_hyp.en"))
    found = metric.score(texts, settled(metric, **values), 0)
    expected = numpy.loadtxt(oracle / f"expected.sntyisi{number}")
    assert found.shape == (10,)
    assert found == pytest.approx(expected, abs=1e-6)
    assert found.mean() == pytest.approx(float(numpy.loadtxt(oracle / f"expected.docyisi{number}")), abs=1e-6)


def test_precision_and_recall_by_hand() -> None:
    # The only bigram of the candidate weighs 1 + 4; its tokens match those of the left's second bigram with 0 and 1.
    # The left's bigrams weigh 3 + 1 and 1 + 1; 3 of the one and 1 of the other is found.
    similarity = numpy.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    found = precision_recall(similarity, numpy.array([3.0, 1.0, 1.0]), numpy.array([1.0, 4.0]), 2)
    assert found == pytest.approx((4 / 5, (3 + 1) / (4 + 2)))


def test_f_weighs_recall_by_alpha() -> None:
    assert f_score(numpy.array([[0.5, 0.25]]), 0.8)[0] == pytest.approx(0.125 / (0.4 + 0.05))
    assert f_score(numpy.array([[0.5, 0.25]]), 1.0)[0] == 0.25


def test_a_word_weighs_as_its_lower_case_form_if_only_that_was_seen() -> None:
    weights = learn_weights([["the", "cat"], ["the", "dog"], ["The", "end"]])
    assert weights.of(["the", "THE", "The", "cow"]) == pytest.approx(numpy.log2([1 + 4 / 3, 1 + 4 / 3, 3, 5]))


def test_common_substrings_count_characters_and_case() -> None:
    assert common_substring("Брат", "брат") == 2 * 3 / 8
    assert common_substring("a", "a") == 1.0 and common_substring("ab", "c") == 0.0


def test_empty_texts_score_nothing() -> None:
    found = compared(Spelling(Tokens.BLANKS), ["a b", "", ""], ["", "a", ""], 3, 0)
    assert found.tolist() == [[0.0, 0.0]] * 3


def test_comb_takes_the_least_recall_and_the_greatest_precision(tmp_path: Path) -> None:
    file = tmp_path / "vectors"
    file.write_text("2 2\na 2 0\nb 3 4\n", encoding="utf-8")  # cosine 3/5
    metric = known_metrics()["yisi_comb"]
    settings = settled(metric, **ONE | {"model": "none", "vectors": str(file)})
    texts = Texts((("a", "b", "a c"), ("b",)), (None, None), ("a", "zzz"))
    # "a": P 1, R 1. "b": P 0.6, R 0.6. "a c": P 1, R of two words; c weighs more than a, which two lines hold.
    a, c = numpy.log2(1 + 4 / 3), numpy.log2(1 + 4 / 2)
    recall = min(0.6, a / (a + c))
    expected = recall / (0.7 + 0.3 * recall)
    assert metric.score(texts, settings, 0) == pytest.approx([expected, 0.0])
    assert score_segments(metric, settings, texts, 0)[:, 0] == pytest.approx([expected, 0.0])


def rated(sentences: tuple[list[str], list[str]]) -> list[dict[str, Any]]:
    rows = zip(*sentences, numpy.random.default_rng(0).random(30), strict=True)
    return [
        {"reference": z, "candidate": c, "source": None, "language_pair": ("de-en", "fr-en")[i % 2], "score": score}
        for i, (z, c, score) in enumerate(rows)
    ]


def test_states_of_equal_texts_are_equal_and_batches_change_nothing(
    tiny_encoder: Path, sentences: tuple[list[str], list[str]]
) -> None:
    kind = States(str(tiny_encoder), 2, across=False)
    found = compared(kind, *sentences, 3, 64)
    assert found[5] == pytest.approx([1.0, 1.0], abs=1e-5)
    assert (found >= 0).all() and found.std() > 0.01
    assert compared(kind, *sentences, 3, 4096) == pytest.approx(found, abs=1e-5)


def test_layer_and_alpha_are_the_best_on_validation(tiny_encoder: Path, sentences: tuple[list[str], list[str]]) -> None:
    rows = rated(sentences)
    metric = known_metrics()["yisi1"]
    chosen = settled(metric, rows, **ONE | {"model": str(tiny_encoder), "alpha": None})
    kinds = [States(str(tiny_encoder), layer, across=False) for layer in (1, 2, 3)]
    table = kendalls(kinds, ALPHAS, 3, rows, 256)
    assert table.shape == (3, len(ALPHAS))
    assert chosen.kind in kinds
    assert table[kinds.index(chosen.kind), ALPHAS.index(chosen.alpha)] == table.max()
    assert chosen.chosen == ("layer", "alpha")
    assert "layer and alpha best on validation" in metric.signature(chosen)
    by_hand = []
    for half in (rows[::2], rows[1::2]):
        references, candidates = ([row[side] for row in half] for side in ("reference", "candidate"))
        scores = f_score(compared(kinds[1], references, candidates, 3, 256), 0.8)
        by_hand.append(kendall(numpy.array([row["score"] for row in half]), scores))
    assert table[1, ALPHAS.index(0.8)] == pytest.approx(numpy.mean(by_hand))


def test_without_validation_the_usual_layer_and_alpha_are_taken(tiny_encoder: Path) -> None:
    found = settled(known_metrics()["yisi1"], **ONE | {"model": str(tiny_encoder), "alpha": None})
    assert (found.kind, found.alpha, found.chosen) == (States(str(tiny_encoder), 3, across=False), ALPHA, ())


def test_yisi2_reads_the_source(tiny_encoder: Path) -> None:
    metric = known_metrics()["yisi2"]
    values = {"layer": 1, "source_vectors": None, "candidate_vectors": None, "alpha": 0.8, "longest": 3}
    settings = settled(metric, model=str(tiny_encoder), tokens="13a", **values)
    texts = Texts(((), ()), ("the old bridge", "a town"), ("the old bridge", "near 1910 , by it"))
    same, other = metric.score(texts, settings, 64)
    assert same == pytest.approx(1.0, abs=1e-5) and other < 0.99


def test_a_language_that_the_encoder_does_not_know_is_left_out(tiny_encoder: Path) -> None:
    metric = known_metrics()["yisi1"]
    settings = settled(metric, **ONE | {"model": str(tiny_encoder), "layer": 1})
    names = {"corpus": "own", "other_references": [], "source": None, "aspect": "adequacy"}
    pairs = (("de-en", "the old bridge", "a bridge"), ("en-ru", "кот спит", "the кот спал"))
    rows = [{**names, "language_pair": pair, "reference": z, "candidate": c} for pair, z, c in pairs]
    found = score_rows(metric, settings, rows, 64)
    assert numpy.isfinite(found.values).tolist() == [True, False]
    assert found.left_out == {f"{tiny_encoder} does not know most of the words of the references": 1}


def test_bad_files_of_word_vectors_are_named(tmp_path: Path) -> None:
    file = tmp_path / "vectors"
    with pytest.raises(ModelError, match="vectors: no such file of word vectors"):
        load_word_vectors(file)
    for text, message in (
        ("a 1 2\n", "line 1: must hold the number of words and their width: 'a 1 2'"),
        ("1 2\na 1\n", "line 2: has 1 numbers, but its first line says 2"),
        ("1 2\na 1 x\n", "line 2: a number of a vector is not a number: 'x'"),
        ("1 1\na 1\nb 1\n", "line 3: has more lines than the 1 words of its first line"),
    ):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=message):
            load_word_vectors(file)
