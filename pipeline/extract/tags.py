"""Tags, comments, tables and external links of wikitext, resolved by linear scans before the parser runs.

The parser's own search for the end of an unclosed tag, table or link takes quadratic time, so that a hostile page
could take hours. After these scans, all templates and links are balanced.

Where something is cut out that a reader would miss, a mark stays in the text. A sentence with a mark has a hole and is
no reference: it is dropped under the mark's reason (`pipeline.extract.sentences`). What a reader would not miss (a
footnote, an image) leaves no mark. Marks are private-use characters; those of the input are replaced first.
"""

import re

TEMPLATE = "\ue000"
FORMULA = "\ue001"
CODE = "\ue002"
BROKEN = "\ue003"
URL = "\ue004"
CUT = "\ue005"
"""Stands for the rest of a line that cannot be used, because a footnote was opened and never closed."""

PRONUNCIATION = "\ue006"
"""A reader misses it only outside brackets: "Rome (MARK) is a city" is whole, "the sound MARK" is not."""

REASONS = {
    TEMPLATE: "unknown_template",
    FORMULA: "formula",
    CODE: "code",
    BROKEN: "broken_markup",
    URL: "url",
    CUT: "broken_markup",
    PRONUNCIATION: "pronunciation",
}
"""Mark -> the reason for which a sentence with this mark is dropped."""

MARKS = "".join(REASONS)
_PRIVATE = re.compile("[\ue000-\uf8ff]")
_ONLY_MARKS = re.compile(rf"[{MARKS}\s.,;:]*")
_AFTER_END = re.compile(rf"(?<=[.!?…])(?P<close>[\"”’)\]]?){TEMPLATE}+(?=\s|$)")

MAX_DEPTH = 20
"""Templates and links that are nested deeper count as broken markup; the parser's own limit is about twice as high."""

_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_INLINE = {"math": FORMULA, "ce": FORMULA, "chem": FORMULA, "hiero": FORMULA, "score": FORMULA}
_INLINE |= {"code": CODE, "source": CODE, "syntaxhighlight": CODE, "pre": CODE, "tt": CODE, "nowiki": CODE}
_SILENT = (
    *("gallery", "timeline", "imagemap", "references", "poem", "graph", "mapframe", "maplink", "indicator", "ref"),
    *("templatestyles", "includeonly", "noinclude", "categorytree", "inputbox"),
)
_VERBATIM = re.compile(rf"<(?P<name>{'|'.join([*_INLINE, *_SILENT])})\b(?P<rest>[^<>]*)>", re.IGNORECASE)
_SAME_NAME = {
    name: re.compile(rf"<(?P<slash>/?){name}\b(?:[^<>]*[^<>/])?>", re.IGNORECASE) for name in (*_INLINE, *_SILENT)
}
_TABLE_END = re.compile(r"\|\}(?!\}(?!\}))")
_SUP = re.compile(r"<sup\b[^<>]*>([^<>]{0,40})</sup\s*>", re.IGNORECASE)
_SUB = re.compile(r"<sub\b[^<>]*>([^<>]{0,40})</sub\s*>", re.IGNORECASE)
_BREAK = re.compile(r"<(?:br|wbr)\b[^<>]*>", re.IGNORECASE)
_BLOCK = re.compile(
    r"</?(?:blockquote|div|center|p|table|tr|td|th|ul|ol|li|dl|dd|dt|h[1-6]|hr|section|onlyinclude)\b[^<>]*>",
    re.IGNORECASE,
)
_TAG = re.compile(r"</?[a-z][a-z0-9]*\b[^<>]*>", re.IGNORECASE)
_EXTERNAL = re.compile(r"\[(?:https?:|ftp:|mailto:)?//[^\s\[\]]++(?:[ \t](?P<label>[^\[\]\n]*))?\]", re.IGNORECASE)
_UNCLOSED = re.compile(r"<(?=[a-z/!])", re.IGNORECASE)
_BARE_URL = re.compile(r"\b(?:https?|ftp)://[^\s|{}\[\]]+", re.IGNORECASE)
_BRACKETS = re.compile(r"\{\{|\}\}|\[\[|\]\]")
_RAISED = str.maketrans("0123456789+-−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻")


def resolve_tags(text: str) -> str:
    """Wikitext without comments, footnotes, tables and tags; a mark stands for what cannot be put in words.

    >>> resolve_tags("10<sup>6</sup> CO<sub>2</sub><ref>Smith</ref> <b>bold</b>")
    '10⁶ CO2 bold'
    """
    text = _without_verbatim(_COMMENT.sub("", text))
    text = _without_tables(text)
    text = _SUP.sub(lambda match: _raised(match[1]), text)
    text = _SUB.sub(lambda match: match[1] if match[1].isdigit() else FORMULA, text)
    text = _TAG.sub("", _BLOCK.sub("\n\n", _BREAK.sub(" ", text)))
    text = _UNCLOSED.sub(BROKEN, text)
    text = _EXTERNAL.sub(lambda match: (match["label"] or "").strip(), text)
    text = _BARE_URL.sub(URL, text).replace("<", "&lt;")  # after "<" the parser would look for the end of a tag
    return _balanced(text)


def _raised(content: str) -> str:
    """What `<sup>` shows: digits and signs as superscript characters, endings such as "th" as text, else a formula."""
    content = content.strip().replace("&minus;", "−")
    if content in {"st", "nd", "rd", "th", ""}:
        return content
    return content.translate(_RAISED) if re.fullmatch(r"[0-9+−-]+", content) else FORMULA


def _without_verbatim(text: str) -> str:
    """Cut elements whose content is not prose. If one is never closed, the rest of its line is unusable."""
    pieces: list[str] = []
    position = 0
    unclosed: set[str] = set()
    while match := _VERBATIM.search(text, position):
        name = match["name"].lower()
        pieces.append(text[position : match.start()])
        position = match.end()
        if match["rest"].endswith("/"):
            continue
        next_tag = None if name in unclosed else _SAME_NAME[name].search(text, position)
        if next_tag is None:
            unclosed.add(name)
        if next_tag is None or not next_tag["slash"]:
            pieces.append(CUT)
            continue
        pieces.append(_INLINE.get(name, ""))
        position = next_tag.end()
    return "".join([*pieces, text[position:]])


def _without_tables(text: str) -> str:
    """Drop tables, from `{|` to `|}`, nested ones too. A table that is never closed ends at the next heading."""
    kept: list[str] = []
    depth = 0
    for line in text.split("\n"):
        start = line.lstrip(" :*#")
        if line.startswith("=") and line.rstrip().endswith("="):
            depth = 0
        if start.startswith("{|"):
            depth += 1
        elif depth and (end := _TABLE_END.match(start)):
            depth -= 1
            kept.append(start[end.end() :])
        elif not depth:
            kept.append(line)
    return "\n".join(kept)


def _balanced(text: str) -> str:
    """Put a mark in place of every `{{`, `}}`, `[[` and `]]` that has no partner or is nested too deep.

    >>> _balanced("{{a|[[b}} c]]") == "{{a|" + BROKEN + "b}} c" + BROKEN
    True
    """
    broken = _broken_brackets(text)
    if not broken:
        return text
    characters = list(text)
    for start in broken:
        characters[start : start + 2] = [BROKEN, ""]
    return "".join(characters)


def _broken_brackets(text: str) -> list[int]:
    """Where the double brackets start that `_balanced` replaces.

    >>> _broken_brackets("{{a|[[b}} c]]")
    [4, 11]
    """
    broken: list[int] = []
    stack: list[tuple[str, int]] = []
    open_count = {"{{": 0, "[[": 0}
    for match in _BRACKETS.finditer(text):
        mark = match[0]
        if mark in open_count:
            stack.append((mark, match.start()))
            open_count[mark] += 1
            continue
        opener = "{{" if mark == "}}" else "[["
        if not open_count[opener]:
            broken.append(match.start())
            continue
        while True:
            found, start = stack.pop()
            open_count[found] -= 1
            if found == opener:
                break
            broken.append(start)
        if len(stack) >= MAX_DEPTH:
            broken += [start, match.start()]
    return broken + [start for _, start in stack]


def without_private_use(text: str) -> str:
    """`text` with BROKEN in place of every private-use character, so that no input can forge another mark."""
    return _PRIVATE.sub(BROKEN, text)


def only_marks(line: str) -> bool:
    """Whether nothing is left of a line but marks, as of a line that held only a template."""
    return _ONLY_MARKS.fullmatch(line) is not None


def without_footnote_marks(text: str) -> str:
    """`text` without unknown templates right after the end of a sentence: such templates are footnotes.

    >>> without_footnote_marks("It rained." + TEMPLATE + " It stopped.")
    'It rained. It stopped.'
    """
    return _AFTER_END.sub(lambda match: match["close"], text)
