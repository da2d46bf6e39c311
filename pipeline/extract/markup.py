"""Wikitext to paragraphs of plain text: what a reader of the page would read as running prose.

The following are removed without a mark: boxes, tables, footnotes, images, galleries, lists, indented lines, headings,
categories, links to other languages, and whole sections without prose (References, External links, …). The words of
links, of emphasis and of inline templates stay. If words inside a paragraph are lost, a mark stays in their place
(`pipeline.extract.tags`).
"""

import html
import re

import mwparserfromhell
from mwparserfromhell.nodes import Argument, Heading, Template, Text, Wikilink
from mwparserfromhell.parser import ParserError
from mwparserfromhell.wikicode import Wikicode

from pipeline.extract.tags import (
    BROKEN,
    CUT,
    PRONUNCIATION,
    TEMPLATE,
    only_marks,
    resolve_tags,
    without_footnote_marks,
    without_private_use,
)
from pipeline.extract.templates import template_text

MEDIA = ("file", "image", "category", "media")
"""Namespaces whose links show no words in running text; dumps in other languages add their own names."""

_NO_PROSE_NAMES = """
references; external links; see also; further reading; bibliography; notes; footnotes; sources; citations; works cited;
notes and references; references and notes; publications; selected bibliography; selected works; works; filmography;
discography; gallery; literature; primary sources; secondary sources; references and further reading;
general references; notes and citations; sources and references; cited sources; explanatory notes;
bibliography and further reading
"""
_NO_PROSE = frozenset(name.strip() for name in _NO_PROSE_NAMES.split(";"))
_LANGUAGE_LINK = re.compile(r"(?:[a-z]{2,3}(?:-[a-z]+)*|simple):(?!\s)")  # but [[CSI: Miami]] is an article
_QUOTES = re.compile(r"'{2,}")
_SWITCH = re.compile(r"__[A-Z]{3,}__")
_NOT_PROSE = ("*", "#", ":", ";", "|", "!", "{|", " ", "\t", "----")
_SPACE = re.compile(r"[\s\u00a0\u2000-\u200a\u202f\u205f\u3000]+")
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]")
_SPOKEN = re.compile(
    rf"(?:\b(?:pronounced|pronunciation|locally|also|or|and|in English|English|UK|US|IPA)[:,]?\s*){{0,6}}"
    rf"{PRONUNCIATION}"
)
_REPAIRS = [
    (re.compile(r"([(\[])[\s,;:/]+"), r"\1"),  # "( ; from Greek", after a pronunciation was dropped
    (re.compile(r"[\s,;:/]{1,20}([)\]])"), r"\1"),
    (re.compile(r"\(\s*(?:or|and|also)?\s*\)|\[\s*\]"), ""),
    (re.compile(r"([,;])(?:\s*[,;])+"), r"\1"),
    (re.compile(r"\s+([,;.!?%)\]])(?=\s|$|[\"”’)])"), r"\1"),
    (re.compile(r"([(\[])\s+"), r"\1"),
    (_SPACE, " "),
]


def paragraphs(wikitext: str, media: tuple[str, ...] = MEDIA) -> list[str]:
    """Paragraphs of prose in the order of the page, one line each, with a mark wherever words were lost.

    `media` names the namespaces of files and categories, in lower case.

    >>> paragraphs("'''Rome''' ({{IPA|x}}) is a [[city|big city]].<ref>A</ref>\\n\\n== Notes ==\\nNothing here.")
    ['Rome is a big city.']
    """
    text = resolve_tags(_SWITCH.sub("", without_private_use(wikitext)))
    lines = _QUOTES.sub("", _words(_parsed(text), frozenset(media))).split("\n")
    return [paragraph for paragraph in map(_tidy, _join(lines)) if paragraph and not only_marks(paragraph)]


def _parsed(text: str) -> Wikicode:
    """The parser's tree; if the parser gives up, all brackets and braces become broken markup."""
    try:
        return mwparserfromhell.parse(text, skip_style_tags=True)
    except ParserError:
        return mwparserfromhell.parse(re.sub(r"[{}\[\]]+", BROKEN, text), skip_style_tags=True)


def _words(code: Wikicode, media: frozenset[str]) -> str:
    pieces: list[str] = []
    for node in code.nodes:
        if isinstance(node, Text):
            pieces.append(node.value)
        elif isinstance(node, Template):
            pieces.append(_template(node, media))
        elif isinstance(node, Wikilink):
            pieces.append(_link(node, media))
        elif isinstance(node, Heading):
            pieces.append(f"{'=' * node.level}{_words(node.title, media).strip()}{'=' * node.level}")
        elif isinstance(node, Argument):
            pieces.append(TEMPLATE)
        else:
            pieces.append(str(node))
    return "".join(pieces)


def _template(node: Template, media: frozenset[str]) -> str:
    name = _words(node.name, media)
    arguments = {_words(p.name, media).strip().lower(): _words(p.value, media).strip() for p in node.params}
    magic, colon, rest = name.partition(":")
    if colon and magic.strip().lower() in {"formatnum", "lc", "uc", "lcfirst", "ucfirst"}:
        name, arguments = magic, {"1": rest.strip()}
    return template_text(name, arguments)


def _link(node: Wikilink, media: frozenset[str]) -> str:
    target = _words(node.title, media).strip()
    prefix = target.partition(":")[0].strip().lower() if ":" in target else ""
    if prefix in media or (node.text is None and _LANGUAGE_LINK.match(target)):
        return ""
    if node.text is not None and (shown := _words(node.text, media)).strip():
        return shown
    return target.lstrip(":").replace("_", " ")


def _join(lines: list[str]) -> list[str]:
    """Paragraphs from lines. A blank line, or a line that is not prose, ends a paragraph, as on the page."""
    found: list[list[str]] = [[]]
    skipped_level = 0
    for line in lines:
        level = _heading_level(line)
        if level and (not skipped_level or level <= skipped_level):
            skipped_level = level if line.strip("= \t").lower() in _NO_PROSE else 0
        if level or skipped_level or not line.strip() or line.startswith(_NOT_PROSE) or only_marks(line):
            found.append([])
        else:
            found[-1].append(line)
    return [" ".join(part) for part in found if part]


def _heading_level(line: str) -> int:
    """Level of a heading, such as 2 for `== History ==`; 0 for any other line."""
    line = line.rstrip()
    left = len(line) - len(line.lstrip("="))
    right = len(line) - len(line.rstrip("="))
    return min(left, right) if left + right < len(line) else 0


def _tidy(text: str) -> str:
    """One line with single spaces, without the remains of a dropped pronunciation, such as "( ; "."""
    text = _INVISIBLE.sub("", html.unescape(text))
    text = re.sub(rf"{CUT}.*", CUT, _SPACE.sub(" ", text))
    text = _without_pronunciation(text)
    for pattern, replacement in _REPAIRS:
        text = pattern.sub(replacement, text)
    return without_footnote_marks(text).strip()


def _without_pronunciation(text: str) -> str:
    """Take pronunciations out of round brackets, with the words that lead to them; elsewhere their marks stay."""
    if PRONUNCIATION not in text:
        return text
    pieces: list[str] = []
    depth = start = 0
    for match in re.finditer(r"[()]", text):
        depth += 1 if match[0] == "(" else -min(depth, 1)
        if depth == (match[0] == "("):  # an outermost bracket opens or closes
            inside = match[0] == ")"
            part = text[start : match.start()]
            pieces.append(_SPOKEN.sub("", part) if inside else part)
            start = match.start()
    return "".join([*pieces, text[start:]])
