"""Which inline templates of English Wikipedia show nothing, a constant, or one of their own arguments.

Names are lower case with single spaces. A dump in another language works with these lists too: what they do not name
leaves a hole, and its sentence is dropped and counted.
"""

from pipeline.extract.markers import FORMULA, PRONUNCIATION, TEMPLATE

SILENT_PREFIXES = (
    *("cite ", "vcite", "citation", "harv", "sfn", "efn", "refn", "pp-", "use ", "unreliable", "better source"),
    *("more citations", "disputed", "weasel", "webarchive", "wiktionary", "failed verification", "dead", "verify"),
    *("not in source", "clarify", "#tag:ref", "defaultsort", "displaytitle"),
)
"""Footnotes, page settings and requests to other editors, by the start of their names."""

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
"""The same, by whole names."""

CITES_IN_TEXT = ("harvtxt", "harvard citation text", "harvnb", "harvard citation no brackets", "harvcoltxt")
"""Citations that are part of the sentence, as in "according to Smith (2004)": a hole."""

PRONUNCIATION_PREFIXES = ("ipa", "respell", "pron", "audio", "usdict", "h:ipa")

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

_FIRST = """
nowrap; nobr; nobreak; small; smaller; big; larger; sc; smallcaps; smallcaps all; em; strong; angbr; vanchor;
visible anchor; tooltip; abbr; abbrlink; hover title; linktext; keypress; key press; key; unicode; iast; nobold; normal;
flag; flagcountry; flagu; mvar; var; interlanguage link; ill; interlanguage link multi; illm; link-interwiki; sic;
not a typo; typo; as written; proper name; chem name; avoid wrap; mono; monospace; samp; kbd; noitalic; noitalics;
title case; underline; overline; bold; italic; dfn; taxon italics; nastaliq; large; midsize
"""
_SECOND = ("lang", "rtl-lang", "script", "font", "color", "colour", "fontcolor", "wikt-lang", "wt", "ltr-lang")
ARGUMENT = {name.strip(): "1" for name in _FIRST.replace("\n", " ").split(";")} | dict.fromkeys(_SECOND, "2")
"""Template -> the argument that it shows."""

LAST_ARGUMENT = ("transl", "resize", "transliteration", "tlit")

QUOTES = ("quote", "blockquote", "cquote", "bquote", "quotation", "block quote", "quote box")
"""Templates that show a paragraph of their own: the argument `text`, `quote` or the first one."""

BEFORE_YEAR = {
    **dict.fromkeys(("circa", "c.", "ca", "c", "ca."), "c. "),
    **dict.fromkeys(("floruit", "fl.", "fl"), "fl. "),
    **dict.fromkeys(("reign", "r."), "r. "),
    "born": "born ",
    "died": "died ",
}

MARKED = {
    **dict.fromkeys(("math", "bigmath", "chem", "chem2", "chemf", "sfrac", "sqrt", "e", "radic", "su", "eqm"), FORMULA),
    **dict.fromkeys(("music", "unichar", "inflation", "currentyear"), TEMPLATE),
    **dict.fromkeys(("lang-ipa", "pronunciation"), PRONUNCIATION),
}
"""Templates that are known to show what is not put in words here, with the mark that says why."""
