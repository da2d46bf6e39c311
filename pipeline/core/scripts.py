"""Scripts of the world: which script a text is in, what its words are, and how long it is.

Letters have their scripts by Unicode (the package `regex`). Most scripts separate words by blanks. A text in one of
the others (SPACELESS) is measured in characters, two for a word: a Chinese word has about one and a half characters,
a Japanese one about two, a Thai one about four.
"""

import functools
from collections import Counter

import regex

SPACELESS = frozenset(("CJK", "THAI", "LAO", "KHMER", "MYANMAR"))
"""Scripts that are written without blanks between words."""

CHARACTERS_PER_WORD = 2
"""So many characters count as one word in the scripts of SPACELESS; punctuation counts, blanks do not."""

OTHER = "OTHER"
"""What `script` says of a letter that no single script owns, such as "µ", and of scripts that are not listed here."""

_NAMES = (
    *("Latin", "Cyrillic", "Greek", "Arabic", "Hebrew", "Armenian", "Georgian", "Hangul", "Bopomofo"),
    *("Thai", "Lao", "Khmer", "Myanmar", "Tibetan", "Devanagari", "Bengali", "Gurmukhi", "Gujarati", "Oriya"),
    *("Tamil", "Telugu", "Kannada", "Malayalam", "Sinhala", "Thaana", "Ethiopic"),
    *("Adlam", "Canadian_Aboriginal", "Cherokee", "Javanese", "Meetei_Mayek", "Mongolian", "Nko", "Ol_Chiki"),
    *("Syriac", "Tifinagh", "Yi"),
)
"""Unicode's recommended scripts (UAX #31, table 5) apart from CJK, and further ones in daily use."""

_SHARED_BY_CJK = "ー\uff70\uff9e\uff9f〆〱-〵〻〼"
"""Letters of Japanese to which Unicode gives no script of their own, because several scripts use them."""

_PROPERTIES = {name.upper(): rf"\p{{Script={name}}}" for name in _NAMES}
_PROPERTIES["CJK"] = rf"\p{{Script=Han}}\p{{Script=Hiragana}}\p{{Script=Katakana}}{_SHARED_BY_CJK}"
_SCRIPT = regex.compile("|".join(f"(?P<{name}>[{members}])" for name, members in _PROPERTIES.items()))

SPACELESS_CHARACTER = f"[{''.join(_PROPERTIES[name] for name in sorted(SPACELESS))}]"
"""Pattern of the package `regex` for one letter, digit or vowel sign of the scripts of SPACELESS."""


@functools.lru_cache(maxsize=8192)
def script(character: str) -> str:
    """The script of a letter, such as "LATIN"; Chinese characters and both kana of Japanese are one script, "CJK".

    >>> script("a"), script("я"), script("日"), script("の"), script("µ")
    ('LATIN', 'CYRILLIC', 'CJK', 'CJK', 'OTHER')
    """
    found = _SCRIPT.match(character)
    return str(found.lastgroup) if found else OTHER


def main_script(text: str) -> str:
    """The script of most letters among the first 10,000 characters; "LATIN" if there is no letter.

    Of two scripts with equally many letters, the first in the alphabet counts.

    >>> main_script("Tokyo is 東京"), main_script("2021")
    ('LATIN', 'LATIN')
    """
    counts = Counter(script(c) for c in text[:10_000] if c.isalpha())
    return min(counts, key=lambda name: (-counts[name], name)) if counts else "LATIN"


def words(text: str) -> tuple[list[str], str]:
    """The words of a text, and what joins them: a blank, or nothing if the words are single characters (SPACELESS).

    >>> words("It rained."), words("雨だ。")
    ((['It', 'rained.'], ' '), (['雨', 'だ', '。'], ''))
    """
    if text.isascii() or main_script(text) not in SPACELESS:
        return text.split(), " "
    return [character for character in text if not character.isspace()], ""


def word_count(sentence: str, main: str) -> int:
    """Words of a sentence on a page whose main script is `main`: split at blanks, or two characters each (SPACELESS).

    >>> word_count("It rained all day.", "LATIN"), word_count("今日は雨だ。", "CJK")
    (4, 3)
    """
    found = sentence.split()
    return sum(map(len, found)) // CHARACTERS_PER_WORD if main in SPACELESS else len(found)


def length(text: str) -> int:
    """Words of a text, counted by `word_count` in the text's own main script.

    >>> length("It rained."), length("今日は雨だ。"), length("")
    (2, 3, 0)
    """
    return word_count(text, "LATIN" if text.isascii() else main_script(text))
