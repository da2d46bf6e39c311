"""The edge policy, row by row of its table, through the scorer."""

from collections.abc import Callable
from pathlib import Path

import numpy
import pytest

from pipeline.metric.checkpoint import Head
from pipeline.scoring.scorer import BleurtScorer
from pipeline.scoring.unusual_texts import Edge, clean

PLAIN = "the cat sat"


@pytest.mark.parametrize(
    "text",
    [
        "\ufeffthe cat sat",
        "the cat sat\r\n",
        "the\ncat\r\n\tsat",
        " the \u00a0 cat\u2028sat\u3000",
        "the\x00 c\x07at sat\x1b",
        "the\u200b cat\x85sat",
    ],
)
def test_marks_controls_and_white_space_change_no_score(scorer: BleurtScorer, text: str) -> None:
    plain, other = scorer.score_detailed(["a dog ran"] * 2, [PLAIN, text])
    assert (other.score, other.edge) == (plain.score, None)
    assert scorer.score([text], ["a dog"]) == scorer.score([PLAIN], ["a dog"])


def test_joined_emoji_stay_whole() -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467 ❤\ufe0f"
    assert clean(f" {family}\n") == family


@pytest.mark.parametrize(
    ("references", "candidate", "source", "flag"),
    [
        (["a dog"], "", None, Edge.EMPTY_CANDIDATE),
        (["a dog"], " \t\x00\ufeff\u3000", None, Edge.EMPTY_CANDIDATE),
        ([""], "a dog", None, Edge.EMPTY_REFERENCE),
        (["", "\n"], "a dog", None, Edge.EMPTY_REFERENCE),
        (["", "a cat"], "a dog", None, None),
        ([""], "", "", Edge.BOTH_EMPTY),
        (["the cat", "a dog"], " a  dog", "a dog", Edge.IDENTICAL),
        (["the cat"], "a Dog", None, None),
        (["the cat"], "a dog", "a dog\r", Edge.SOURCE_COPY),
        (["the cat"], "a dog", "", None),
        (["the cat"], "🙂 🙂 🙂 🙂 the cat", None, Edge.UNKNOWN_WORDS),
        (["the cat"], "🙂 the cat", None, None),
        (["the cat"], "Кошка сидела", None, Edge.UNKNOWN_WORDS),
        (["Кошка"], "the cat", None, None),
    ],
)
def test_flags(
    scorer: BleurtScorer, references: list[str], candidate: str, source: str | None, flag: Edge | None
) -> None:
    sources = None if source is None else [source]
    (found,) = scorer.score_detailed([references], [candidate], sources=sources)
    assert found.edge == flag
    assert numpy.isfinite(found.score)


def test_an_empty_reference_among_others_is_left_out(scorer: BleurtScorer) -> None:
    assert scorer.score([["", "a dog"]], [PLAIN]) == scorer.score(["a dog"], [PLAIN])


@pytest.mark.parametrize("head", list(Head))
def test_nothing_to_read_still_has_a_score(new_checkpoint: Callable[..., Path], head: Head) -> None:
    scores = BleurtScorer(new_checkpoint("adequacy", head=head), device="cpu").score(["", "a", ""], ["", "", "a"])
    assert numpy.isfinite(scores).all() and len(set(scores)) == 3
