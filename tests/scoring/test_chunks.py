"""Windows: nothing lost, aligned, weighted by the longer side, also where a half is missing or words have no spaces."""

import pytest

from pipeline.scoring.chunks import Window, windows


def fits(words: int):  # type: ignore[no-untyped-def]
    """Pairs of at most so many words, or characters where there are no spaces."""
    return lambda reference, candidate: (
        sum(len(s.split()) if " " in s else len(s) for s in (reference, candidate)) <= words
    )


def numbered(first: int, last: int) -> str:
    """Sentences of four words, each word once: "a1 b1 c1 d1. a2 b2 …"."""
    return " ".join(f"a{i} b{i} c{i} d{i}." for i in range(first, last))


def test_a_pair_that_fits_is_one_window() -> None:
    assert windows("a b c", "a d", fits(5)) == [Window("a b c", "a d", 3)]


def test_equal_texts_are_cut_at_the_same_sentence_ends() -> None:
    text = numbered(0, 4)
    found = windows(text, text, fits(16))
    assert found == [Window(numbered(0, 2), numbered(0, 2), 8), Window(numbered(2, 4), numbered(2, 4), 8)]


@pytest.mark.parametrize("limit", [16, 20, 50])
def test_no_word_is_lost_and_every_window_fits(limit: int) -> None:
    reference, candidate = numbered(0, 30), numbered(0, 12) + " " + numbered(14, 33)
    found = windows(reference, candidate, fits(limit))
    assert " ".join(window.reference for window in found if window.reference) == reference
    assert " ".join(window.candidate for window in found if window.candidate) == candidate
    assert all(fits(limit)(window.reference, window.candidate) for window in found)


def test_what_a_candidate_lacks_faces_empty_windows() -> None:
    found = windows(numbered(0, 8), numbered(0, 4), fits(16))
    assert found == [
        Window(numbered(0, 2), numbered(0, 2), 8),
        Window(numbered(2, 4), numbered(2, 4), 8),
        Window(numbered(4, 8), "", 16),
    ]


def test_what_a_candidate_lacks_at_the_start_shifts_nothing() -> None:
    found = windows(numbered(0, 8), numbered(4, 8), fits(16))
    assert found[0] == Window(numbered(0, 4), "", 16)
    assert found[1:] == [Window(numbered(i, i + 2), numbered(i, i + 2), 8) for i in (4, 6)]


def test_other_words_are_aligned_by_proportion() -> None:
    found = windows("a b c d e f g h", "p q r s", fits(6))
    assert found == [Window("a b c d", "p q", 4), Window("e f g h", "r s", 4)]


def test_scripts_without_spaces_are_cut_between_characters() -> None:
    text = "猫坐在垫子上。狗跑了。"
    found = windows(text, text, lambda r, c: len(r) + len(c) <= 16)
    assert [(window.reference, window.candidate) for window in found] == [("猫坐在垫子上。",) * 2, ("狗跑了。",) * 2]


def test_khmer_and_the_repetition_mark_are_cut_between_characters_too() -> None:
    assert [window.weight for window in windows("ខ្មែរ", "人々", lambda r, c: True)] == [5]
    assert [window.weight for window in windows("人々", "", lambda r, c: True)] == [2]


def test_what_one_word_cannot_face_faces_nothing() -> None:
    assert windows("a", "b c d e f g h i", fits(5)) == [Window("a", "b c d e", 4), Window("", "f g h i", 4)]


def test_a_word_too_long_for_any_window_stays_whole() -> None:
    assert windows("a b", "c" * 20, fits(10)) == [Window("a", "", 1), Window("b", "c" * 20, 1)]
