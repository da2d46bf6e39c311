"""Puts inline templates of wikitext in words, as the page would show them, or says that they leave a hole.

Four kinds: silent (footnotes, requests to editors: a reader misses nothing), constant, argument (the words are one of
the template's own arguments) and computed (quantities, dates, languages). Any other template leaves the mark of a hole;
on a line of its own (boxes, notes on top of a section) the mark goes with the line.
"""

import re
from collections.abc import Callable

from pipeline.extract.languages import LANGUAGES
from pipeline.extract.markers import PRONUNCIATION, TEMPLATE
from pipeline.extract.quantities import Arguments, converted, formatted, fraction, measured, numbered
from pipeline.extract.template_names import (
    ARGUMENT,
    BEFORE_YEAR,
    CITES_IN_TEXT,
    CONSTANTS,
    LAST_ARGUMENT,
    MARKED,
    PRONUNCIATION_PREFIXES,
    QUOTES,
    SILENT,
    SILENT_PREFIXES,
)

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def template_text(name: str, arguments: Arguments) -> str:
    """The words that the template shows; "" where it shows none, a mark where they are not known.

    >>> template_text("Convert", {"1": "5", "2": "km", "3": "mi"}), template_text("lang", {"1": "la", "2": "villa"})
    ('5 km', 'villa')
    """
    name = re.sub(r"[\s_]+", " ", name).strip().lower()
    if name in _COMPUTED:
        return _COMPUTED[name](arguments)
    if name in CONSTANTS:
        return CONSTANTS[name]
    if name in MARKED:
        return MARKED[name]
    if name in ARGUMENT:
        return arguments.get(ARGUMENT[name]) or TEMPLATE
    if name in LAST_ARGUMENT:
        return next(reversed(numbered(arguments)), TEMPLATE)
    if name in BEFORE_YEAR:
        return BEFORE_YEAR[name] + "–".join(numbered(arguments)[:2])
    if name in QUOTES:
        return f"\n\n{arguments.get('text') or arguments.get('quote') or arguments.get('1', '')}\n\n"
    return _by_prefix(name, arguments)


def _by_prefix(name: str, arguments: Arguments) -> str:
    if name.startswith("lang-"):
        return _foreign(name.removeprefix("lang-"), arguments.get("1", ""), arguments)
    if name.startswith(PRONUNCIATION_PREFIXES):
        return PRONUNCIATION
    if name in CITES_IN_TEXT:
        return TEMPLATE
    return "" if name in SILENT or name.startswith(SILENT_PREFIXES) else TEMPLATE


def _foreign(code: str, words: str, arguments: Arguments) -> str:
    """`{{lang-fr|oui}}` shows "French: oui"."""
    if words and arguments.get("label") == "none":
        return words
    language = LANGUAGES.get(code.split("-")[0])
    return f"{language}: {words}" if language and words else TEMPLATE


def _langx(arguments: Arguments) -> str:
    return _foreign(arguments.get("1", ""), arguments.get("2", ""), arguments)


def _as_of(arguments: Arguments) -> str:
    """`{{as of|2014|5}}` is "As of May 2014"."""
    if "alt" in arguments:
        return arguments["alt"] or TEMPLATE
    date = numbered(arguments)
    if not 1 <= len(date) <= 3:
        return TEMPLATE
    if len(date) > 1 and date[1] in map(str, range(1, 13)):
        date[1] = _MONTHS[int(date[1]) - 1]
    start = "since" if arguments.get("since") else "as of"
    return " ".join([start if arguments.get("lc") else start.capitalize(), *reversed(date)])


def _nihongo(arguments: Arguments) -> str:
    """`{{nihongo|health|元気|genki}}` is "health (元気, genki)"."""
    english, kanji, romaji = (arguments.get(str(i), "") for i in (1, 2, 3))
    inside = ", ".join(part for part in (kanji, romaji) if part)
    if not english:
        english, inside = romaji, kanji
    return (f"{english} ({inside})" if inside else english) or TEMPLATE


def _coordinates(arguments: Arguments) -> str:
    """Silent where they are shown in the title only, else a hole ("at 13°19′N 169°9′W")."""
    return "" if arguments.get("display") in {"title", "t"} else TEMPLATE


_COMPUTED: dict[str, Callable[[Arguments], str]] = {
    "convert": converted,
    "cvt": converted,
    "formatnum": formatted,
    "nts": formatted,
    "format price": formatted,
    "val": measured,
    "frac": fraction,
    "fraction": fraction,
    "as of": _as_of,
    "asof": _as_of,
    "nihongo": _nihongo,
    "langx": _langx,
    "coord": _coordinates,
}
