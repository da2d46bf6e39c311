"""Puts the inline templates of wikitext in words, as the page would show them.

There are four kinds. Silent templates show nothing that a reader would miss (footnotes, requests to editors). Constant
templates always show the same words. Argument templates show one of their own arguments. Computed templates show
quantities, dates and languages. Any other template leaves the mark of a hole; if it fills a line of its own (a box, a
note on top of a section), the mark goes with the line.

The names below are those of English Wikipedia, in lower case with single spaces. They work with a dump in another
language too: a template that they do not name leaves a hole, and its sentence is dropped and counted.
"""

import re
from collections.abc import Callable

from pipeline.extract.quantities import Arguments, converted, formatted, fraction, measured, numbered
from pipeline.extract.tags import FORMULA, PRONUNCIATION, TEMPLATE

SILENT_PREFIXES = (
    *("cite ", "vcite", "citation", "harv", "sfn", "efn", "refn", "pp-", "use ", "unreliable", "better source"),
    *("more citations", "disputed", "weasel", "webarchive", "wiktionary", "failed verification", "dead", "verify"),
    *("not in source", "clarify", "#tag:ref", "defaultsort", "displaytitle"),
)
"""Beginnings of the names of footnotes, page settings and requests to other editors."""

_SILENT_NAMES = """
according to whom; according to whom?; ambiguous; anchor; anchors; attribution needed; by whom; by whom?; clear; -;
clarification needed; cn; contradict-inline; copyedit inline; cref; csdash; date needed; definition needed; dmoz;
editorializing; elaborate; en icon; es icon; de icon; fr icon; example needed; examples; expand acronym; expand section;
explain; fact; flag icon; flagicon; full; full citation needed; fv; globalize-inline; how; image reference needed;
importance inline; in lang; incomprehensible inline; inconsistent; listen; lopsided; math citation;
medical citation needed; needs update; no more links; non-primary source needed; nonspecific; note; or;
original research inline; page needed; pages needed; peacock term; portal-inline; pov; pov statement; pov-inline;
primary source inline; quantify; r; ref; ref label; relevance inline; rp; self-published inline; short description; shy;
sister-inline; source needed; specify; speculation inline; synthesis inline; third-party inline; toc limit; tone inline;
undue inline; undue weight inline; update after; update inline; vague; dubious; verification; vn; wayback; wbr; when;
when?; where; which; which?; who; who?; whom; why; why?; year needed; youtube; zwj; zwnj; inflation-fn; inflation-year
"""
SILENT = frozenset(name.strip() for name in _SILENT_NAMES.replace("\n", " ").split(";"))
"""Whole names of further footnotes, page settings and requests."""

CITES_IN_TEXT = ("harvtxt", "harvard citation text", "harvnb", "harvard citation no brackets", "harvcoltxt")
"""Citations that are words of the sentence, as in "according to Smith (2004)"; they leave a hole."""

PRONUNCIATION_PREFIXES = ("ipa", "respell", "pron", "audio", "usdict", "h:ipa")
"""Beginnings of the names of templates that say how a word sounds."""

CONSTANTS = {
    **dict.fromkeys(("nbsp", "space", "spaces", "thin space", "thinsp", "hair space", "nnbsp", "sp"), " "),
    **dict.fromkeys(("spaced ndash", "snd", "spnd", "ndash", "spaced en dash", "en dash"), " – "),
    **dict.fromkeys(("mdash", "em dash", "mdashb", "dash"), "—"),
    **dict.fromkeys(("'", "-'", "apostrophe"), "'"),
    **dict.fromkeys(("' \"", "\"'", "'\""), "' \""),
    '-"': '"',
    "'s": "'s",
    "!": "|",
    "=": "=",
    "·": "·",
    "dot": "·",
    "times": "×",
    "bce": "BCE",
    "ce": "CE",
    "bc": "BC",
    "ad": "AD",
}
"""Template -> the words that it always shows."""

_FIRST = """
nowrap; nobr; nobreak; small; smaller; big; larger; sc; smallcaps; smallcaps all; em; strong; angbr; vanchor;
visible anchor; tooltip; abbr; abbrlink; hover title; linktext; keypress; key press; key; unicode; iast; nobold; normal;
flag; flagcountry; flagu; mvar; var; interlanguage link; ill; interlanguage link multi; illm; link-interwiki; sic;
not a typo; typo; as written; proper name; chem name; avoid wrap; mono; monospace; samp; kbd; noitalic; noitalics;
title case; underline; overline; bold; italic; dfn; taxon italics; nastaliq; large; midsize
"""
_SECOND = ("lang", "rtl-lang", "script", "font", "color", "colour", "fontcolor", "wikt-lang", "wt", "ltr-lang")
ARGUMENT = {name.strip(): "1" for name in _FIRST.replace("\n", " ").split(";")} | dict.fromkeys(_SECOND, "2")
"""Template -> the name of the argument that it shows."""

LAST_ARGUMENT = ("transl", "resize", "transliteration", "tlit")
"""Templates that show their last argument."""

QUOTES = ("quote", "blockquote", "cquote", "bquote", "quotation", "block quote", "quote box")
"""Templates that show a paragraph of their own: the argument `text`, else `quote`, else the first one."""

BEFORE_YEAR = {
    **dict.fromkeys(("circa", "c.", "ca", "c", "ca."), "c. "),
    **dict.fromkeys(("floruit", "fl.", "fl"), "fl. "),
    **dict.fromkeys(("reign", "r."), "r. "),
    "born": "born ",
    "died": "died ",
}
"""Template -> the words that it shows before its arguments, which are one year or two."""

MARKED = {
    **dict.fromkeys(("math", "bigmath", "chem", "chem2", "chemf", "sfrac", "sqrt", "e", "radic", "su", "eqm"), FORMULA),
    **dict.fromkeys(("music", "unichar", "inflation", "currentyear"), TEMPLATE),
    **dict.fromkeys(("lang-ipa", "pronunciation"), PRONUNCIATION),
}
"""Template that shows something other than words -> the mark that stands for it."""

_LANGUAGE_NAMES = """
af Afrikaans; am Amharic; ang Old English; ar Arabic; az Azerbaijani; be Belarusian; bg Bulgarian;
bn Bengali; br Breton; bs Bosnian; ca Catalan; cs Czech; cy Welsh; da Danish; de German; el Greek;
eo Esperanto; es Spanish; et Estonian; eu Basque; fa Persian; fi Finnish; fr French; ga Irish;
gd Scottish Gaelic; gl Galician; got Gothic; grc Ancient Greek; he Hebrew; hi Hindi; hr Croatian;
hu Hungarian; hy Armenian; id Indonesian; is Icelandic; it Italian; ja Japanese; ka Georgian; kk Kazakh;
ko Korean; ku Kurdish; la Latin; lb Luxembourgish; lt Lithuanian; lv Latvian; mk Macedonian; ml Malayalam;
mn Mongolian; mr Marathi; ms Malay; mt Maltese; nah Nahuatl; ne Nepali; nl Dutch; no Norwegian;
non Old Norse; oc Occitan; pa Punjabi; pl Polish; ps Pashto; pt Portuguese; ro Romanian; ru Russian;
sa Sanskrit; sk Slovak; sl Slovene; sq Albanian; sr Serbian; sv Swedish; sw Swahili; syr Syriac; ta Tamil;
te Telugu; th Thai; tr Turkish; tt Tatar; uk Ukrainian; ur Urdu; uz Uzbek; vi Vietnamese; yi Yiddish;
zh Chinese
"""
LANGUAGES = dict(entry.strip().split(" ", 1) for entry in _LANGUAGE_NAMES.replace("\n", " ").split(";"))
"""ISO 639 code of a language -> its English name, as {{lang-xx}} shows it."""

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def template_text(name: str, arguments: Arguments) -> str:
    """The words that the template shows: "" if it shows none, a mark if its words are not known.

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
    """What a template shows if it is known by the start of its name; a hole for any other."""
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
    """`{{langx|fr|oui}}` shows "French: oui"."""
    return _foreign(arguments.get("1", ""), arguments.get("2", ""), arguments)


def _as_of(arguments: Arguments) -> str:
    """`{{as of|2014|5}}` shows "As of May 2014"."""
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
    """`{{nihongo|health|元気|genki}}` shows "health (元気, genki)"."""
    english, kanji, romaji = (arguments.get(str(i), "") for i in (1, 2, 3))
    inside = ", ".join(part for part in (kanji, romaji) if part)
    if not english:
        english, inside = romaji, kanji
    return (f"{english} ({inside})" if inside else english) or TEMPLATE


def _coordinates(arguments: Arguments) -> str:
    """Coordinates that belong only in the title show nothing here; others leave a hole ("at 13°19′N 169°9′W")."""
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
