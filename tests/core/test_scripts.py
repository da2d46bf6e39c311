"""Scripts: letters, texts of one script or several, and the words of scripts with and without blanks."""

import pytest
import regex

from pipeline.core.scripts import SPACELESS, SPACELESS_CHARACTER, length, main_script, script, word_count, words


@pytest.mark.parametrize(
    ("letters", "name"),
    [
        ("azÀßøıſªⁿＡ", "LATIN"),
        ("яЩѣ", "CYRILLIC"),
        ("αΩΩ", "GREEK"),
        ("日々〇𠀀豈のノｦーｰ〆", "CJK"),
        ("ㄅ", "BOPOMOFO"),
        ("한ㄱ", "HANGUL"),
        ("ไ", "THAI"),
        ("ລ", "LAO"),
        ("ខ", "KHMER"),
        ("မ", "MYANMAR"),
        ("བ", "TIBETAN"),
        ("ع", "ARABIC"),
        ("ש", "HEBREW"),
        ("हि", "DEVANAGARI"),
        ("ᐃ", "CANADIAN_ABORIGINAL"),
        ("µʻ𝐀", "OTHER"),  # no script of their own
        ("𐌰", "OTHER"),  # Gothic is not listed
    ],
)
def test_letters(letters: str, name: str) -> None:
    assert [script(letter) for letter in letters] == [name] * len(letters)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("", "LATIN"),
        ("2021, 3.5%!", "LATIN"),
        ("🙂👍🏽", "LATIN"),
        ("🙂 Да 👍", "CYRILLIC"),
        ("The city of 東京 grew.", "LATIN"),
        ("東京 (Tokyo) は日本の首都。", "CJK"),
        ("カーテンを買う。", "CJK"),
        ("ประเทศไทย 2021", "THAI"),
        ("ປະເທດລາວ", "LAO"),
        ("ភ្នំពេញ", "KHMER"),
        ("မြန်မာ", "MYANMAR"),
        ("우리는 집에 간다.", "HANGUL"),
        ("яa", "CYRILLIC"),  # a tie: the first in the alphabet
        ("a" * 10_000 + "я" * 20_000, "LATIN"),  # only the first 10,000 characters count
    ],
)
def test_main_script(text: str, name: str) -> None:
    assert main_script(text) == name


@pytest.mark.parametrize(
    ("text", "parts", "joint", "count"),
    [
        ("", [], " ", 0),
        ("  \n", [], " ", 0),
        ("2021 3.5", ["2021", "3.5"], " ", 2),
        ("🙂 👍🏽", ["🙂", "👍🏽"], " ", 2),
        ("It  rained.", ["It", "rained."], " ", 2),
        ("Шёл дождь.", ["Шёл", "дождь."], " ", 2),
        ("우리는 집에 간다.", ["우리는", "집에", "간다."], " ", 3),
        ("雨 だ。", ["雨", "だ", "。"], "", 1),
        ("東京は2021年", list("東京は2021年"), "", 4),  # eight characters
        ("ไทย", list("ไทย"), "", 1),  # three characters
        ("ລາວ", list("ລາວ"), "", 1),
        ("ខ្មែរ", list("ខ្មែរ"), "", 2),  # five characters, signs included
        ("မြန်မာ", list("မြန်မာ"), "", 3),  # six characters, signs included
        ("The city (東京) grew.", ["The", "city", "(東京)", "grew."], " ", 4),
    ],
)
def test_words_and_length(text: str, parts: list[str], joint: str, count: int) -> None:
    assert words(text) == (parts, joint)
    assert length(text) == count


def test_word_count_follows_the_page_and_not_the_sentence() -> None:
    assert (word_count("Tokyo 2021", "CJK"), word_count("Tokyo 2021", "LATIN")) == (4, 2)
    assert (word_count("", "THAI"), word_count("", "LATIN")) == (0, 0)


def test_pattern_of_spaceless_characters_agrees_with_the_names() -> None:
    for character in "aя한日々のノーｰไລខမ๑":
        assert (regex.match(SPACELESS_CHARACTER, character) is not None) == (script(character) in SPACELESS)
    assert regex.findall(SPACELESS_CHARACTER, "Tokyo、東京。 ไทย 2021 ខ្មែរ") == list("東京ไทยខ្មែរ")
