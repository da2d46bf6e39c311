"""Scripts of the world: which one a text is in, what its words are, and how long it is.

Most scripts separate words by blanks. Those that do not (SPACELESS) are measured in characters, two for a word: a
Chinese word has about one and a half, a Japanese one about two, a Thai one about four.
"""

import functools
import unicodedata
from collections import Counter

SPACELESS = frozenset(("CJK", "THAI", "LAO", "KHMER", "MYANMAR"))
"""Scripts written without blanks between words, by their names in Unicode."""

CHARACTERS_PER_WORD = 2
"""In the scripts of SPACELESS, punctuation counted, blanks not."""

_WRITTEN_TOGETHER = dict.fromkeys(("HIRAGANA", "KATAKANA", "IDEOGRAPHIC"), "CJK")


@functools.lru_cache(maxsize=8192)
def script(character: str) -> str:
    """The script of a letter, such as "LATIN"; Chinese characters and both kana of Japanese are one, "CJK".

    >>> script("a"), script("я"), script("日"), script("の")
    ('LATIN', 'CYRILLIC', 'CJK', 'CJK')
    """
    name = unicodedata.name(character, "UNKNOWN").split(" ")[0].split("-")[0]
    return _WRITTEN_TOGETHER.get(name, name)


def main_script(text: str) -> str:
    """The script that most of the first 10,000 characters' letters belong to; "LATIN" where there is no letter."""
    counts = Counter(script(c) for c in text[:10_000] if c.isalpha())
    return min(counts, key=lambda name: (-counts[name], name)) if counts else "LATIN"


def words(text: str) -> tuple[list[str], str]:
    """The words of a text and what stands between them: what blanks part, or single characters (SPACELESS).

    >>> words("It rained."), words("雨だ。")
    ((['It', 'rained.'], ' '), (['雨', 'だ', '。'], ''))
    """
    if text.isascii() or main_script(text) not in SPACELESS:
        return text.split(), " "
    return [character for character in text if not character.isspace()], ""


def word_count(sentence: str, main: str) -> int:
    """Words of a sentence on a page in the script `main`: between blanks, or two characters each (SPACELESS).

    >>> word_count("It rained all day.", "LATIN"), word_count("今日は雨だ。", "CJK")
    (4, 3)
    """
    words = sentence.split()
    return sum(map(len, words)) // CHARACTERS_PER_WORD if main in SPACELESS else len(words)


def length(text: str) -> int:
    """Words of a text of any script, as `word_count` has them."""
    return word_count(text, "LATIN" if text.isascii() else main_script(text))
