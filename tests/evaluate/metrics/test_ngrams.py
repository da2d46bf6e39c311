"""Metrics that count words and n-grams, by hand and against sacrebleu; all are higher for better candidates."""

import math
import time

import numpy
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from pipeline.core.modules import ROOT
from pipeline.core.params import load_key
from pipeline.evaluate.metrics import Level, Texts, known_metrics, score_pairs, texts_of

COUNTING = [
    name for name, metric in known_metrics().items() if metric.section is None and metric.level is Level.SEGMENT
]
REFERENCE = "the old bridge was closed in the spring of 1999"


@pytest.mark.parametrize("name", COUNTING)
def test_better_candidates_score_higher_and_equal_ones_highest(name: str) -> None:
    candidates = [REFERENCE, "the old bridge was closed in spring 1999", "a cat sleeps on my warm sofa", ""]
    same, close, far, empty = score_pairs(name, [REFERENCE] * 4, candidates).tolist()
    assert same > close > far >= empty


@pytest.mark.parametrize(
    ("name", "best"),
    [
        ("sentbleu", 100.0),
        ("chrf++", 100.0),
        ("ter", 0.0),
        ("rouge2", 1.0),
        ("rougeL", 1.0),
    ],
)
def test_an_identical_candidate_has_the_best_score(name: str, best: float) -> None:
    assert score_pairs(name, [REFERENCE], [REFERENCE])[0] == pytest.approx(best)


def test_ter_is_minus_the_edits_for_100_words() -> None:
    assert score_pairs("ter", ["a b c d"], ["a b c e"])[0] == pytest.approx(-25.0)
    assert score_pairs("ter", ["a b c d"], [""])[0] == pytest.approx(-100.0)


def test_meteor_by_hand() -> None:
    # Three of four words match, the last by its stem, in one chunk: P = R = 0.75, penalty 0.5 (1 / 3) ** 3.
    found = score_pairs("meteor", ["we saw dogs running"], ["we saw dog slowly"])[0]
    assert found == pytest.approx(0.75 * (1 - 0.5 / 27))
    assert score_pairs("meteor", ["a b"], [""])[0] == 0.0
    assert "no synonyms" in signature("meteor")


def test_rouge_by_hand() -> None:
    # Bigrams ab bc cd against ab bc: P 1, R 2/3, F 0.8. Longest common subsequence abc: P 1, R 3/4, F 6/7.
    assert score_pairs("rouge2", ["a b c d"], ["a b c"])[0] == pytest.approx(0.8)
    assert score_pairs("rougeL", ["a b c d"], ["a b c"])[0] == pytest.approx(6 / 7)


def test_sentence_bleu_by_hand() -> None:
    # All n-grams of a four-word prefix match; only the brevity penalty exp(1 - 5/4) counts.
    found = score_pairs("sentbleu", ["a b c d e"], ["a b c d"])[0]
    assert found == pytest.approx(100 * math.exp(1 - 5 / 4))


def test_sentence_bleu_of_a_short_match_uses_the_orders_that_exist() -> None:
    assert score_pairs("sentbleu", ["yes indeed"], ["yes indeed"])[0] == pytest.approx(100.0)


def test_signatures_say_how() -> None:
    assert signature("sentbleu").startswith("nrefs:1|case:mixed|eff:yes|tok:13a|smooth:exp|version:")
    assert "|nw:2|" in signature("chrf++")
    assert signature("ter").endswith(", negated")
    assert "rougeL" in signature("rougeL")


def test_the_longest_texts_that_collect_lets_through_take_seconds() -> None:
    longest = load_key(ROOT / "params.yaml", "collect")["max_words"]
    rng = numpy.random.default_rng(0)
    reference, candidate = (" ".join(f"w{n}" for n in rng.zipf(1.5, longest)) for _ in range(2))
    start = time.process_time()
    for name in COUNTING:
        assert score_pairs(name, [reference], [candidate]).shape == (1,)
    assert time.process_time() - start < 90  # TER alone takes 15 on a slow core, and 40 for 1,000 words


def signature(name: str) -> str:
    return known_metrics()[name].signature(None)


def test_the_counting_metrics_are_six() -> None:
    assert sorted(COUNTING) == ["chrf++", "meteor", "rouge2", "rougeL", "sentbleu", "ter"]


def test_a_metric_reads_the_writing_whose_words_it_finds() -> None:
    reads = {
        name: [
            known_metrics()[name].can_read(texts_of([text], [text])) for text in ("A cat.", "Кот спит.", "猫在睡觉。")
        ]
        for name in COUNTING
    }
    at_blanks, in_latin, everything = [True, True, False], [True, False, False], [True, True, True]
    assert reads == {
        "sentbleu": at_blanks, "ter": at_blanks, "meteor": at_blanks,
        "rouge2": in_latin, "rougeL": in_latin, "chrf++": everything,
    }  # fmt: skip


def test_corpus_scores_are_those_of_sacrebleu() -> None:
    references = ["the cat sat on the mat", "a dog ran", "the small red house stood there"]
    candidates = ["the cat sat on a mat", "a dog ran", "the small house stood there"]
    for name, expected in (("bleu", BLEU()), ("chrf", CHRF())):
        metric = known_metrics()[name]
        found = metric.score(texts_of(references, candidates), None, 0)
        assert metric.level is Level.SYSTEM
        assert float(found) == expected.corpus_score(candidates, [references]).score
        signature = str(expected.get_signature()).removeprefix("nrefs:1|")
        assert metric.signature(None) == f"corpus, all references, {signature}"


def test_a_segment_may_have_fewer_references_than_another() -> None:
    several = Texts((("a b c d", "x y z w"), ("x y",)), (None, None), ("x y z w", "x y"))
    found = known_metrics()["chrf"].score(several, None, 0)
    assert float(found) == pytest.approx(100.0)


def test_no_rows_give_no_scores() -> None:
    for name in COUNTING:
        assert score_pairs(name, [], []).shape == (0,)
