"""The edge policy, row by row of its table, through the scorer."""

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest

from pipeline.collect.corpus import Corpus, Part, Split
from pipeline.collect.gather import cleaned, load
from pipeline.core.errors import ParamsError
from pipeline.metric.checkpoint import Head
from pipeline.scoring.scorer import BleurtScorer
from pipeline.scoring.unusual_texts import CharacterReferences, Edge, clean

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
        (["a dog"], "&nbsp;&#8203;", None, Edge.EMPTY_CANDIDATE),
        (["the &quot;cat&quot;"], 'the "cat"', None, Edge.IDENTICAL),
        (["the cat"], "a &amp; b", "a & b", Edge.SOURCE_COPY),
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


ESCAPED = [
    ("The &quot;cat&quot; sat on AT&amp;T&apos;s mat.", 'The "cat" sat on AT&T\'s mat.'),
    ("a dog &lt;3 the caf&eacute; &#8211; ran&nbsp;off", "a dog <3 the café – ran off"),
    ("&#x27;paris&#39;", "'paris'"),
]


def test_a_text_scores_the_same_with_references_and_with_characters(scorer: BleurtScorer) -> None:
    escaped, plain = [one for one, _ in ESCAPED], [other for _, other in ESCAPED]
    others = ["the cat sat.", "a dog ran", "the bird"]
    assert scorer.score(escaped, others) == scorer.score(plain, others)
    assert scorer.score(others, escaped) == scorer.score(others, plain)
    assert scorer.score([[others[0], text] for text in escaped], others) == scorer.score(
        [[others[0], text] for text in plain], others
    )


def test_kept_references_are_words_of_their_own(checkpoint: Path, scorer: BleurtScorer) -> None:
    kept = BleurtScorer(checkpoint, device="cpu", character_references="kept")
    (escaped, plain), *_ = ESCAPED
    assert kept.score([plain], ["a dog"]) == scorer.score([plain], ["a dog"])
    assert kept.score([escaped], ["a dog"]) != scorer.score([escaped], ["a dog"])
    with pytest.raises(ParamsError, match=r"^character_references: must be one of undone, kept, not 'off'\.$"):
        BleurtScorer(checkpoint, character_references="off")


def test_one_layer_is_undone_and_addresses_stay() -> None:
    assert clean("&amp;quot;") == "&quot;" == clean("&amp;quot;", CharacterReferences.UNDONE)
    assert clean("&quot;", CharacterReferences.KEPT) == "&quot;"
    assert clean("?a=1&copy=2&lt") == "?a=1&copy=2&lt"


def test_raw_wmt17_scores_as_collect_reads_it(real_data: Path) -> None:
    """Every fourth rated row whose texts hold references, as published and as `collect` cleans it."""
    corpus = Corpus(
        name="wmt17", layout="wmt17", parts=(Part(path=str(real_data / "wmt" / "wmt17")),), split=Split.TEST,
        language_pairs=("*-en",), years=(), test_fraction=None, scale=None,
    )  # fmt: skip
    raw = load(corpus)
    rows = list(zip(raw.ratings, cleaned(raw, True, max_words=10_000).ratings, strict=True))
    chosen = [pair for pair in rows if (pair[0].reference, pair[0].candidate) != (pair[1].reference, pair[1].candidate)]
    chosen = chosen[::4]
    assert len(chosen) > 200
    scorer = BleurtScorer(device="cpu", max_tokens=64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some are longer than 64 tokens, the same in both readings
        escaped, plain = (
            scorer.score([pair[reading].reference for pair in chosen], [pair[reading].candidate for pair in chosen])
            for reading in (0, 1)
        )
    assert escaped == plain
