"""The kinds of graded candidates: each does what it says, or nothing if the text does not allow it."""

from collections import Counter

import numpy
import pytest

from pipeline.grade.kinds import Kind, Pool, Sentence, candidate, names_in

TEXT = "On Monday the mayor of Lyon opened 14 schools, but he did not pay for three of them."
POOL = Pool(
    ["The bridge was closed in spring, because the ice had broken two of its pillars.", "Nobody came."],
    ["Oslo", "Berlin", "New York"],
)


def made(kind: Kind, times: int = 200, text: str = TEXT) -> set[str | None]:
    rng = numpy.random.default_rng(0)
    return {candidate(kind, Sentence("1", text, "A paraphrase.", "Un texte."), POOL, rng) for _ in range(times)}


def test_a_wrong_name_is_another_of_its_family_or_of_the_pool() -> None:
    texts = made(Kind.WRONG_NAME)
    assert TEXT not in texts and None not in texts
    assert TEXT.replace("Lyon", "Oslo") in texts and TEXT.replace("Lyon", "Berlin") in texts
    assert TEXT.replace("Monday", "Friday") in texts and TEXT.replace("Monday", "Oslo") not in texts
    assert TEXT.replace("Lyon", "New York") not in texts  # as many words as before


def test_names_are_whole_words_in_any_script_of_letters() -> None:
    assert names_in("With José Dvořák, Ann met McDonald, BBC and Anna.") == ["José Dvořák", "Ann", "McDonald", "Anna"]
    texts = made(Kind.WRONG_NAME, text="First Ann met Annette in May.")
    assert "First Oslo met Annette in May." in texts and not any("Osloette" in str(text) for text in texts)


def test_one_number_changes() -> None:
    texts = made(Kind.WRONG_NUMBER)
    assert {TEXT.replace("14", "94"), TEXT.replace("14", "10"), TEXT.replace("three", "hundred")} <= texts
    assert TEXT not in texts and not any("04" in str(text) for text in texts)


def test_the_meaning_turns() -> None:
    assert made(Kind.NEGATED) == {TEXT.replace(" not", ""), TEXT.replace("opened", "closed")}
    assert made(Kind.NEGATED, text="He will win more.") == {"He will not win more.", "He will win less."}
    assert made(Kind.NEGATED, text="They can't win.") == {"They can win."}
    assert made(Kind.NEGATED, text="Is he there?") == {None}
    assert made(Kind.NEGATED, text="He won not only gold but fame.") == {"He lost not only gold but fame."}
    assert made(Kind.NEGATED, text="The twenty-first came.") == {None}
    assert made(Kind.NEGATED, text="He did his work.") == {None}
    assert made(Kind.NEGATED, text="I shan't go, it ain't right.") == {None}
    assert made(Kind.NEGATED, text="Can't they go?") == {"Can they go?"}
    assert made(Kind.NEGATED, text="Won't they go?") == {"Will they go?"}
    assert made(Kind.NEGATED, text="They didn’t win.") == {"They did win."}


def test_other_kinds() -> None:
    words = TEXT.split()
    assert made(Kind.IDENTICAL) == {TEXT}
    assert made(Kind.PARAPHRASE) == {"A paraphrase."}
    assert made(Kind.UNTRANSLATED) == {"Un texte."}
    assert made(Kind.EMPTY) == {"", "."}
    assert made(Kind.UNRELATED) == set(POOL.texts)
    assert made(Kind.EXTRA_CLAUSE) - {None} == {TEXT[:-1] + ", because the ice had broken two of its pillars."}
    assert all(Counter(str(text).split()) == Counter(words) for text in made(Kind.SCRAMBLED))
    for text in made(Kind.HALF):
        assert 0.3 * len(words) - 1 <= len(str(text).split()) <= 0.6 * len(words) + 1 and str(text) in TEXT
    for text in made(Kind.REPEATED):
        assert set(str(text).split()) <= set(words)
        assert max(Counter(str(text).split()).values()) >= 3 and str(text) != TEXT


@pytest.mark.parametrize(
    "kind", [Kind.WRONG_NAME, Kind.WRONG_NUMBER, Kind.NEGATED, Kind.REPEATED, Kind.SCRAMBLED, Kind.HALF]
)
def test_what_a_text_does_not_allow_is_not_made(kind: Kind) -> None:
    assert made(kind, text="it rains") == {None}
