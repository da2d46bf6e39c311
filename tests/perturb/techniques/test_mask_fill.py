"""Mask-filling: which words are masked, and how the text is put together.

Filled pieces go back into the text: verbatim elsewhere, sensible spaces and capitals where filled.
"""

import dataclasses
import itertools
from collections import Counter

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare
from tiny_filler import save_tiny_filler

from pipeline.core.errors import ParamsError
from pipeline.core.params import from_mapping
from pipeline.core.records import Reason
from pipeline.perturb.techniques import mask_fill as module
from pipeline.perturb.techniques.mask_fill import MaskStyle, Params, draw_words, splice, usual_spelling
from pipeline.teachers.mask_filler import Piece, load_filler

RANDOM, SPAN = MaskStyle.RANDOM, MaskStyle.SPAN
WORDS = ["The", "cat", "sat", "Zürich", "on", "12", "(red)", "dog's", "mat,", ".", "Ünï", "日本", "e.g.", "x-y"]
SIZES = st.lists(st.integers(1, 20), max_size=60)
TEXTS = [
    "The cat sat on the mat.",
    "A red dog ran, and the cat sat (on the house).",
    "Paris!",
    "In Zürich 42 birds sing; don't they?",
    "   ",
    "The dogs   ran on, on and on:  the birds sat in Paris, as ever, and the small red house was theirs.",
]
TEXT = "The  old man's (big) dog, Rex, ran home."
PIECES = [
    Piece(piece, start, start + len(piece.removeprefix("##")))
    for piece, start in [
        ("the", 0), ("old", 5), ("man", 9), ("'", 12), ("s", 13), ("(", 15), ("big", 16), (")", 19), ("dog", 21),
        (",", 24), ("re", 26), ("##x", 28), (",", 29), ("ran", 31), ("home", 35), (".", 39),
    ]
]  # fmt: skip


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch):
    monkeypatch.setenv("BLEURT_DEVICE", "cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny_filler(tmp_path_factory.mktemp("filler"))


@pytest.fixture
def params(folder):
    return Params(
        model=str(folder),
        share=1.0,
        copies=2,
        styles=(RANDOM, SPAN),
        max_masks=15,
        max_mask_share=1.0,
        beam_width=3,
        batch_tokens=200,
        precision=module.Precision.FLOAT32,
    )


@pytest.fixture(scope="session")
def mask_fill(shard_of):
    """The attempts for some texts."""
    return lambda texts, params, rng: module.make(shard_of(texts, rng), params).attempts


def seeded(seed: int = 0) -> numpy.random.Generator:
    return numpy.random.default_rng(seed)


@given(st.sampled_from([RANDOM, SPAN]), SIZES, st.floats(0, 1), st.integers(0, 2**32))
def test_masks_are_at_most_15_and_words_distinct(style, sizes, share, seed):
    words = draw_words(style, sizes, 15, share, seeded(seed))
    assert words == sorted(set(words))
    assert sum(sizes[word] for word in words) <= 15
    assert len(words) <= max(1, int(share * len(sizes)))
    if sizes and max(sizes) <= 15:
        assert words != []


@given(SIZES, st.integers(0, 2**32))
def test_spans_are_contiguous(sizes, seed):
    words = draw_words(SPAN, sizes, 15, 1.0, seeded(seed))
    if words:
        assert words == list(range(words[0], words[-1] + 1))


@pytest.mark.parametrize("style", [RANDOM, SPAN])
def test_number_of_masked_words_is_uniform(style):
    rng = seeded(3)
    counts = Counter(len(draw_words(style, [1] * 30, 15, 1.0, rng)) for _ in range(6000))
    assert sorted(counts) == list(range(1, 16))
    assert chisquare([counts[n] for n in range(1, 16)]).pvalue > 0.01


def test_span_starts_are_uniform():
    rng = seeded(4)
    starts = Counter(draw_words(SPAN, [1] * 6, 1, 1.0, rng)[0] for _ in range(6000))
    assert chisquare([starts[n] for n in range(6)]).pvalue > 0.01


def test_span_ends_before_the_word_that_does_not_fit():
    drawn = {tuple(draw_words(SPAN, [2, 2, 9], 4, 1.0, seeded(seed))) for seed in range(50)}
    assert drawn == {(0,), (1,), (0, 1), ()}


def test_half_of_the_words_at_most():
    rng = seeded(5)
    assert {len(draw_words(RANDOM, [1] * 8, 15, 0.5, rng)) for _ in range(300)} == {1, 2, 3, 4}


def test_the_filler_computes_in_the_precision_asked_for(params, mask_fill, monkeypatch):
    asked = []
    monkeypatch.setattr(module, "load_filler", lambda *given: asked.append(given) or load_filler(*given))
    for precision in module.Precision:
        mask_fill(["The cat sat on the mat."], dataclasses.replace(params, precision=precision), seeded())
    assert asked == [(params.model, "float32"), (params.model, "bf16")]


@pytest.mark.parametrize("batch_tokens", [1, 90, 100_000])
def test_batching_changes_no_text(params, mask_fill, batch_tokens):
    other = dataclasses.replace(params, batch_tokens=batch_tokens)
    assert mask_fill(TEXTS, other, seeded(7)) == mask_fill(TEXTS, params, seeded(7))


def test_every_segment_has_its_attempts(params, mask_fill):
    attempts = mask_fill(TEXTS, params, seeded())
    assert [(a.segment_id, a.tag) for a in attempts] == [(i, f"mask{c}") for i in "012345" for c in (1, 2)]
    assert [a.reason for a in attempts if a.segment_id == "4"] == [Reason.UNMASKABLE] * 2
    assert all(1 <= a.masks <= 15 for a in attempts if a.segment_id != "4")


@settings(deadline=None, max_examples=30)
@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=10))
def test_words_that_are_not_masked_stay_as_written(folder, mask_fill, words):
    text = "  ".join(words)
    params = Params(str(folder), 1.0, 1, (SPAN,), 3, 1.0, 2, 500, module.Precision.FLOAT32)
    (attempt,) = mask_fill([text], params, seeded())
    sentence = load_filler(str(folder)).read([text])[0]
    sizes = [len(word) for word in sentence.words]
    rng = seeded()
    rng.permutation(1)
    rng.integers(1)
    masked = draw_words(SPAN, sizes, 3, 1.0, rng)
    if not masked:
        assert attempt.reason == Reason.UNMASKABLE
        return
    first, last = sentence.words[masked[0]][0], sentence.words[masked[-1]][-1]
    before, behind = text[: sentence.pieces[first].start].rstrip(), text[sentence.pieces[last].end :].lstrip()
    assert attempt.candidate.startswith(before)
    assert attempt.candidate.endswith(behind)
    assert attempt.candidate != text


def test_unchanged_only_if_the_beam_has_nothing_else(params, mask_fill, monkeypatch):
    filler = load_filler(params.model, params.precision.value)
    vocabulary = filler.tokenizer.get_vocab()
    ranked = [[[vocabulary["paris"]], [vocabulary["house"]]]]
    monkeypatch.setattr(filler, "fill", lambda masked, *_: ranked * len(masked))
    one = dataclasses.replace(params, copies=1, styles=(SPAN,), max_masks=1)
    rng_that_masks_paris = seeded(next(s for s in range(99) if _first_word(s)))
    assert mask_fill(["Paris!"], one, rng_that_masks_paris)[0].candidate == "House!"
    ranked[0].pop()
    rng_that_masks_paris = seeded(next(s for s in range(99) if _first_word(s)))
    assert mask_fill(["Paris!"], one, rng_that_masks_paris)[0].candidate == "Paris!"


def test_a_hypothesis_without_words_is_passed_over(params, mask_fill, monkeypatch):
    one = dataclasses.replace(params, copies=1, styles=(SPAN,), max_masks=1)
    monkeypatch.setattr(module, "splice", lambda text, pieces, filled, spelling: blanks.pop())
    blanks = ["", "\u00a0", "House"] * 5
    assert mask_fill(["Paris"], one, seeded())[0].candidate == "House"
    blanks = ["", "\u00a0", " "] * 5
    assert mask_fill(["Paris"], one, seeded())[0].candidate == "Paris"  # unchanged, and dropped as such


@pytest.mark.parametrize(
    ("lowercase", "expected"), [(True, ["We Paris Paris", "A Paris sat"]), (False, ["We paris Paris", "A paris sat"])]
)
def test_only_words_of_a_filler_that_lower_cases_get_their_usual_spelling(
    params, mask_fill, tmp_path, monkeypatch, lowercase, expected
):
    one = dataclasses.replace(params, model=str(save_tiny_filler(tmp_path, lowercase=lowercase)), copies=1)
    filler = load_filler(one.model, one.precision.value)
    filled = [[filler.tokenizer.get_vocab()["paris"]]]
    monkeypatch.setattr(filler, "fill", lambda masked, *_: [filled] * len(masked))
    monkeypatch.setattr(module, "draw_words", lambda *_: [1])
    attempts = mask_fill(["We ran Paris", "A cat sat"], one, seeded())
    assert [attempt.candidate for attempt in attempts] == expected


def _first_word(seed: int) -> bool:
    rng = seeded(seed)
    rng.permutation(1)
    rng.integers(1)
    return draw_words(SPAN, [1, 1], 1, 1.0, rng) == [0]


def test_segment_beyond_the_models_positions_is_too_long(params, mask_fill):
    attempts = mask_fill(["cat " * 10_000, "cat " * 62, "cat " * 63], dataclasses.replace(params, copies=1), seeded())
    assert [a.reason for a in attempts] == [Reason.TOO_LONG, None, Reason.TOO_LONG]  # 64 positions, two are special


def test_a_word_of_too_many_pieces_cannot_be_masked(params, mask_fill):
    (attempt,) = mask_fill(["z" * 16], dataclasses.replace(params, copies=1), seeded())
    assert attempt.reason == Reason.UNMASKABLE


def test_share_of_the_segments(params, mask_fill):
    attempts = mask_fill(TEXTS, dataclasses.replace(params, share=0.5), seeded())
    assert len({a.segment_id for a in attempts}) == 3
    assert mask_fill([], params, seeded()) == []


@pytest.mark.parametrize(
    ("key", "value"), [("share", 1.1), ("copies", 0), ("max_masks", 0), ("beam_width", 0), ("max_mask_share", -0.5)]
)
def test_params_out_of_range_are_refused_by_name(params, key, value):
    with pytest.raises(ParamsError, match=f"^perturb.mask_fill.{key}: must be "):
        from_mapping(dataclasses.asdict(params) | {key: value}, Params, "perturb.mask_fill")


def test_no_style_is_refused(params):
    with pytest.raises(ParamsError, match=r"perturb.mask_fill.styles: must name at least one"):
        from_mapping(dataclasses.asdict(params) | {"styles": []}, Params, "perturb.mask_fill")


@pytest.mark.parametrize(
    ("filled", "expected"),
    [
        ({}, TEXT),
        ({1: "tall"}, "The  tall man's (big) dog, Rex, ran home."),
        ({0: "a"}, "A  old man's (big) dog, Rex, ran home."),
        ({2: "woman", 8: "cat"}, "The  old woman's (big) cat, Rex, ran home."),
        ({6: "very", 7: "big"}, "The  old man's (very big dog, Rex, ran home."),
        ({9: "and"}, "The  old man's (big) dog and Rex, ran home."),
        ({13: ","}, "The  old man's (big) dog, Rex,, home."),
        ({14: "walk", 15: "##ing"}, "The  old man's (big) dog, Rex, ran walking"),
        ({8: "##s"}, "The  old man's (big)s, Rex, ran home."),
        ({10: "re", 11: "##x"}, TEXT),
        ({10: "re", 11: "##d"}, "The  old man's (big) dog, Red, ran home."),
        ({10: "fi", 11: "##x"}, "The  old man's (big) dog, fix, ran home."),
        ({10: "blue", 11: "bird"}, "The  old man's (big) dog, blue bird, ran home."),
        ({10: "par", 11: "##is"}, "The  old man's (big) dog, Paris, ran home."),
        ({0: "un", 1: "##usual"}, "Unusual man's (big) dog, Rex, ran home."),
        ({0: "("}, "(old man's (big) dog, Rex, ran home."),
    ],
)
def test_filled_pieces(filled, expected):
    assert splice(TEXT, PIECES, filled, {"paris": "Paris"}) == expected


def test_word_behind_an_opening_quote_is_capitalised():
    pieces = [Piece('"', 0, 1), Piece("yes", 1, 4), Piece('"', 4, 5)]
    assert splice('"Yes"', pieces, {1: "no"}, {}) == '"No"'


def test_pieces_that_share_a_character_are_written_once():
    pieces = [Piece("ᄒ", 0, 1), Piece("##ᅡ", 0, 1), Piece("##ᆫ", 0, 1), Piece("cat", 2, 5)]
    assert splice("한 cat", pieces, {3: "dog"}, {}) == "한 dog"
    assert splice("한 cat", pieces, {0: "a", 1: "##b", 2: "##c"}, {}) == "Abc cat"


@given(st.text(max_size=30), st.data())
def test_text_without_change_stays_verbatim(text, data):
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)))))
    pieces = [Piece(text[a:b].lower(), a, b) for a, b in itertools.pairwise(cuts)]
    assert splice(text, pieces, {i: piece.piece for i, piece in enumerate(pieces)}, {}) == text


def test_usual_spelling_counts_inside_sentences_only():
    texts = ["Rome likes Cats.", "Dogs like cats in Rome and NATO.", "The NATO, the king and King Lear."]
    assert usual_spelling(texts) == {"rome": "Rome", "nato": "NATO", "lear": "Lear"}


def test_usual_spelling_needs_nearly_always_and_knows_function_words():
    assert usual_spelling(["x " + "Art " * 8 + "art", "x US US US"]) == {}
    assert usual_spelling(["x " + "Art " * 9 + "art"]) == {"art": "Art"}
