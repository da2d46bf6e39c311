"""Sentence boundaries and the filters, one named reason each."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.core.scripts import main_script, word_count
from pipeline.extract.sentences import drop_reason, sentences
from pipeline.extract.tags import CODE, FORMULA, REASONS, TEMPLATE


@pytest.mark.parametrize(
    "expected",
    [
        ["Dr. Smith came.", "He left at 5 p.m. on Monday."],
        ["Nobody noticed; the machine did not exist.", "It was 1843."],
        ["It rose to 0.96.", "Many fell."],
        ["Under Rep. Thaddeus Stevens it passed.", "It failed."],
        ["He met Robert E. Lee.", "They spoke."],
        ["It derives from the form A.", "In Greek it was joined."],
        ["There are many (oranges, lemons, etc.).", "They grow."],
        ['He said "It is so."', "They left."],
        ["The prize (won in 1999) was small.", "It was gold."],
        ["All were detained.", "303 were given sentences."],
        ["ប្រាសាទមួយ។", "ទីក្រុងមួយ។"],
    ],
)
def test_boundaries(expected: list[str]) -> None:
    assert sentences(" ".join(expected)) == expected


@pytest.mark.parametrize(
    "expected",
    [
        ["今日は雨だ。", "彼は「行く。」と言った。", "本当か？", "はい！", "そうだ。"],
        ["北京是首都。", "他说：“我去。”"],
        ["何だって？！", "はい。"],
        ["ခရီးသွားသည်။", "သူလာသည်။"],
    ],
)
def test_boundaries_in_scripts_without_blanks(expected: list[str]) -> None:
    assert sentences("".join(expected)) == expected


@given(st.text(alphabet="abA.!?;,()\"' 1\n", max_size=80))
@settings(max_examples=200, deadline=None)
def test_no_character_is_lost(paragraph: str) -> None:
    assert "".join("".join(sentences(paragraph)).split()) == "".join(paragraph.split())


@pytest.mark.parametrize(
    ("sentence", "reason"),
    [
        ("The city has grown since then.", None),
        ('"It is so," he said to them.', None),
        ("1843 was a good year for them.", None),
        ("L. Smith was the first of them.", None),
        ("In Washington, D.C., it rained all day (twice).", None),
        ("Too short.", "too_short"),
        (" ".join(["Word"] + ["word"] * 9_999) + ".", "too_long"),
        (f"It has {TEMPLATE} legs and arms.", "unknown_template"),
        (f"Thus {FORMULA} holds for all of them.", "formula"),
        (f"Use {CODE} to print it out.", "code"),
        ("the city has grown since then.", "bad_start"),
        ("(The city has grown since then.)", "bad_start"),
        ("- The city has grown since then.", "bad_start"),
        ("The city has grown since then", "no_sentence_end"),
        ("The following have grown since then:", "no_sentence_end"),
        ("The city (in Italy has grown since.", "unbalanced_brackets"),
        ("The city in Italy) has grown since.", "unbalanced_brackets"),
        ("The city “in Italy has grown since.", "unbalanced_brackets"),
        ('The city "in Italy has grown since.', "unbalanced_quotes"),
        ("1. The city has grown since then.", "list_item"),
        ("a) The city has grown since then.", "list_item"),
        ("The city [[has]] grown since then.", "leftover_markup"),
        ("The city | has grown since then.", "leftover_markup"),
        ("The city <b>has grown since then.", "leftover_markup"),
        ("The city at www.rome.it has grown.", "url"),
        ("See also the growth of the city.", "citation"),
        ("The city grew (Smith, p. 12) since then.", "citation"),
        ("The city of the, has grown since.", "gap"),
        ("The city () has grown since then.", "gap"),
        ("The city , has grown since then.", "gap"),
        ("The city cost $ in those days.", "gap"),
        ("The city has grown.Then it fell again.", "glued_words"),
        ("A1 2 3 4 5 6 7 8 9 10 11 12.", "few_letters"),
        ("THE CITY HAS GROWN SINCE THEN.", "mostly_capitals"),
        ("The Μουσηγέτης ἡγέτης Μοῦσα name.", "foreign_script"),
    ],
)
def test_filter(sentence: str, reason: str | None) -> None:
    assert drop_reason(sentence, "LATIN", min_words=5, max_words=40) == reason


def test_word_counts_are_inclusive() -> None:
    sentence = "One two three four five."
    assert drop_reason(sentence, "LATIN", 5, 5) is None
    assert drop_reason(sentence, "LATIN", 6, 9) == "too_short"
    assert drop_reason(sentence, "LATIN", 1, 4) == "too_long"


@pytest.mark.parametrize(
    ("sentence", "script", "words"),
    [
        ("今日は雨だ。", "CJK", 3),  # six characters
        ("今日は 雨だ。", "CJK", 3),
        ("東京は2021年に変わった。", "CJK", 7),  # 14 characters
        ("ประเทศไทย", "THAI", 4),  # nine characters, vowel signs included
        ("우리는 집에 간다.", "HANGUL", 3),
        ("The city (東京) grew.", "LATIN", 4),
    ],
)
def test_words_are_counted_by_blanks_or_by_characters(sentence: str, script: str, words: int) -> None:
    assert word_count(sentence, script) == words
    assert main_script(sentence) == script
    assert drop_reason(sentence, script, words + 1, 99) == "too_short"
    assert drop_reason(sentence, script, 1, words - 1) == "too_long"


def test_a_quotation_may_begin_right_after_a_full_stop() -> None:
    assert sentences("今天下雨。“真的吗？”他问。") == ["今天下雨。", "“真的吗？”他问。"]


@pytest.mark.parametrize(
    ("sentence", "reason"),
    [
        ("„Das ist nicht gut“, sagte der alte Mann.", None),
        ("»Das ist nicht gut«, sagte der alte Mann.", None),
        ("Er sagte dem alten Mann: „Das ist nicht gut.“", None),
        ("Powiedział on wczoraj: „To jest dobre”.", None),
        ("«C’est très bien», dit-il à la dame.", None),
        ("Das ist „nicht gut für ihn.", "unbalanced_brackets"),
        ("Das „ist (gut“ für ihn).", "unbalanced_brackets"),
        ("He said ”yes” to it all.", "unbalanced_brackets"),
    ],
)
def test_quotation_marks_of_other_languages(sentence: str, reason: str | None) -> None:
    assert drop_reason(sentence, "LATIN", 2, 40) == reason


@pytest.mark.parametrize(
    ("sentence", "reason"),
    [
        ("「今日は雨だ」と彼は言った。", None),
        ("人々はカタカナも使う。", None),  # three scripts and a repetition mark are one
        ("今日は「雨だと言った。", "unbalanced_brackets"),
        ("今日は雨だ", "no_sentence_end"),
        ("今日はРимは雨ИталияРимだ。", "foreign_script"),
    ],
)
def test_filter_of_japanese(sentence: str, reason: str | None) -> None:
    assert drop_reason(sentence, "CJK", 1, 40) == reason


def test_vowel_signs_count_as_letters() -> None:
    sentence = "ភ្នំពេញគឺជារាជធានីនៃប្រទេសកម្ពុជា។"  # below 0.6 without them
    assert drop_reason(sentence, "KHMER", 1, 40) is None


def test_every_mark_has_a_reason() -> None:
    for mark, reason in REASONS.items():
        assert drop_reason(f"The city {mark} has grown since then.", "LATIN", 5, 40) == reason


def test_a_page_in_another_script_is_not_foreign() -> None:
    sentence = "Рим является столицей Италии и Лацио."
    assert main_script(sentence) == "CYRILLIC"
    assert drop_reason(sentence, "CYRILLIC", 5, 40) is None
    assert drop_reason(sentence, "LATIN", 5, 40) == "foreign_script"


def test_main_script_without_letters() -> None:
    assert main_script("123") == "LATIN"


@pytest.mark.parametrize("unit", ["word ", "a; ", "A. ", "etc. A ", "It is so. ", "(", ".", "1."])
def test_a_hundred_thousand_characters_take_seconds(unit: str) -> None:
    start = time.process_time()
    found = sentences(unit * (100_000 // len(unit)))
    for sentence in found:
        drop_reason(sentence, "LATIN", 1, 10**9)
    assert time.process_time() - start < 10
