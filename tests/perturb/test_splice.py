"""Filled pieces put back into text: verbatim elsewhere, sensible spaces and capitals where filled."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.perturb.splice import splice, usual_spelling
from pipeline.teachers.mask_filler import Piece

TEXT = "The  old man's (big) dog, Rex, ran home."
PIECES = [
    Piece(piece, start, start + len(piece.removeprefix("##")))
    for piece, start in [
        ("the", 0), ("old", 5), ("man", 9), ("'", 12), ("s", 13), ("(", 15), ("big", 16), (")", 19), ("dog", 21),
        (",", 24), ("re", 26), ("##x", 28), (",", 29), ("ran", 31), ("home", 35), (".", 39),
    ]
]  # fmt: skip


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
