"""Cuts paragraphs of plain text into sentences, and filters them; every dropped sentence has a named reason.

syntok finds the ends of sentences. It is five times as fast as pysbd on this text, and as good after the repairs here:
it cuts at semicolons and after some titles, and misses ends after numbers and closing brackets. The filters catch the
cuts that are still wrong: one half of the sentence starts in lower case, ends without a full stop, or opens a bracket
or a quotation that it does not close.

syntok does not know the full stops of scripts without blanks (such as 。). They end a sentence unless a closing bracket
or quotation mark follows. Thai and Lao have no full stop; their sentences are found only if they borrow one.
"""

import re
import unicodedata
from collections.abc import Iterator

import syntok.segmenter

from pipeline.core.scripts import script as script_of
from pipeline.core.scripts import word_count
from pipeline.extract.tags import MARKS, REASONS

_SPACELESS_ENDS = "。！？｡។။"
ENDS = f".!?…।؟{_SPACELESS_ENDS}"
_CLOSERS = "\"”’'»)\\]」』）】》〉"
_ENDED = re.compile(rf"[{ENDS}][{_CLOSERS}“«]*$")  # “ and « close in some languages
_TITLE = re.compile(r"(?:^|[\s(\"“])(?:Lt|Rep|Sen|Gov|Gen|Col|Capt|Sgt|Hon|Rev|Pres|Prof|Dr|Mr|Mrs|Ms|St|Mt|No|vs)\.$")
_INITIAL = re.compile(r"(?:^|[\s(])[A-Z]\.$")
_CONTINUES = re.compile(r"[a-z,;:.!?%)\]”’…–—/-]")
_OPENERS = (
    "The|This|These|Those|That|It|In|On|At|By|For|He|She|They|We|But|And|However|When|As|Although|While|After|A|An"
)
_MISSED = re.compile(
    r"(?<=[\d)%°²³\]]\.) (?=[A-Z\"“(])|(?<=\d m\.) (?=[A-Z])|(?<=etc\.) (?=[A-Z])|(?<=\.\)) (?=[A-Z])|"
    rf"(?<=\.[\"”]) (?=[A-Z])|(?<= [A-Z]\.) (?=(?:{_OPENERS}) [a-zA-Z])|(?<=[a-z]{{4}}\.) (?=\d[\d,]* [a-z]{{3}})"
)
_SPACELESS_END = re.compile(rf"(?<=[{_SPACELESS_ENDS}])(?![{ENDS}{_CLOSERS}]|$)")
_NUMBERED = re.compile(r"(?:\b(?:No|Nos|vol|pp?|ch|art|fig|eq|c|ca|b|d|fl|r)\. ?\d+|^\d+)\.$", re.IGNORECASE)

_MARK = re.compile(f"[{MARKS}]")
_MARKUP = re.compile(r"[{}<>|\\~]|\[\[|\]\]|''|==|__|&[a-z]+;|&#|^[*#:;]|\bstyle=|\bname=|\balign=")
_URL = re.compile(r"https?:|www\.|\S@\w+\.\w")
_LIST_ITEM = re.compile(r"\d{1,3}[.)]\s|\(?[a-zA-Z]\)\s")
_CITATION = re.compile(r"\b(?:ISBN|ISSN|OCLC|pp?\. ?\d|doi:|Retrieved (?:on )?\d)|^(?:See|Cf\.?|Ibid)\b.{0,60}$")
_GAP = re.compile(
    r"\b(?:the|an|its|their|every) ?[,.;:)]|\b(?:and|or) ?[.;)]|[$£€](?=[\s.,;)])|\( ?\)|\[ ?\]|\( ?[,;:]|\"\"|“”|"
    r"[,;:] ?[.;:!?]|(?<!\.)\.\.(?!\.)|,,|\s[,;.:](?![.\d])|\b(\w{2,3}) (?:of|by|the|in) \.|(?<=\s)-(?=\s?[,.])|"
    r"\((?:e\.g\.|i\.e\.|see|cf\.|from|and|or|also)[,:]?\)|[.!?] (?:\.\.\.|…)$"
)
_GLUED = re.compile(
    r"[a-z]{2}[.!?][A-Z][a-z]|[a-z]{3}\([A-Za-z]{3}|[a-z]\)[A-Za-z]{2}|[a-z][,;:][A-Za-z]{2}|[.!?][\"”][A-Z]"
)
_CLOSING_OF = {**dict(zip("([«「『（【《〈»", ")]»」』）】》〉«", strict=True)), "“": "”", "„": "“”"}
"""Opening bracket or quotation mark -> what closes it; some open in one language and close in another (“a”, „b“)."""
_BRACKETS = frozenset("".join(_CLOSING_OF.values())) | set(_CLOSING_OF)

MAX_FOREIGN_LETTERS = 0.2
"""Largest share of letters that are not of the page's main script, such as Greek words in an English sentence."""

MIN_LETTERS = 0.6
"""Smallest share of letters, vowel signs and accents among the characters that are not spaces."""


def sentences(paragraph: str) -> list[str]:
    """The sentences of a paragraph, in order, without the spaces around them; nothing else is changed.

    >>> sentences("Dr. Ada Lovelace wrote it in 1843. Nobody noticed; the machine did not exist.")
    ['Dr. Ada Lovelace wrote it in 1843.', 'Nobody noticed; the machine did not exist.']
    """
    found: list[list[str]] = []
    for piece in _pieces(paragraph):
        if found and _joins(found[-1][-1], piece):
            found[-1].append(piece)
        else:
            found.append([piece])
    parts = [part for pieces in found for cut in _missed_ends("".join(pieces)) for part in _SPACELESS_END.split(cut)]
    return [part.strip() for part in parts if part.strip()]


def _pieces(paragraph: str) -> Iterator[str]:
    """syntok's sentences as slices of the paragraph. They keep their spaces, so that they can be joined again."""
    starts = [sentence[0].offset for part in syntok.segmenter.analyze(paragraph) for sentence in part if sentence]
    for start, end in zip([0, *starts[1:]], [*starts[1:], len(paragraph)], strict=False):
        yield paragraph[start:end]


def _joins(before: str, after: str) -> bool:
    """Whether two pieces are one sentence, because the first has no end or the second does not start a sentence."""
    before = before.rstrip()
    if not _ENDED.search(before) or _TITLE.search(before) or _INITIAL.search(before):
        return True
    return _CONTINUES.match(after.lstrip()) is not None


def _missed_ends(sentence: str) -> Iterator[str]:
    """Cut between two sentences that syntok left together, at the places that _MISSED describes."""
    start = 0
    for match in _MISSED.finditer(sentence):
        if not _NUMBERED.search(sentence[start : match.start()]):
            yield sentence[start : match.start()]
            start = match.end()
    yield sentence[start:]


def drop_reason(sentence: str, script: str, min_words: int, max_words: int) -> str | None:
    """The reason to drop the sentence, by the first filter that it fails; None if it passes all of them.

    `script` is the main script of the page (`main_script`); `word_count` counts the words.

    >>> drop_reason("It rained", "LATIN", 2, 40), drop_reason("It rained.", "LATIN", 2, 40)
    ('no_sentence_end', None)
    """
    mark = _MARK.search(sentence)
    if mark:
        return REASONS[mark[0]]
    words = word_count(sentence, script)
    if words < min_words:
        return "too_short"
    if words > max_words:
        return "too_long"
    return _form(sentence) or _content(sentence, script)


def _form(sentence: str) -> str | None:
    """The reason to drop the sentence for its start, its end, or its brackets and quotation marks."""
    if _LIST_ITEM.match(sentence):
        return "list_item"
    opening = sentence.lstrip("\"“„«»'‘‚「『")
    if not opening or not opening[0].isalnum() or opening[0].islower():
        return "bad_start"
    if not _ENDED.search(sentence):
        return "no_sentence_end"
    if not _balanced(sentence):
        return "unbalanced_brackets"
    return "unbalanced_quotes" if sentence.count('"') % 2 else None


def _content(sentence: str, script: str) -> str | None:
    """The reason to drop the sentence for leftovers of markup, for gaps, or for its characters."""
    patterns = {"leftover_markup": _MARKUP, "url": _URL, "citation": _CITATION, "gap": _GAP, "glued_words": _GLUED}
    for reason, pattern in patterns.items():
        if pattern.search(sentence):
            return reason
    letters = [c for c in sentence if c.isalpha()]
    signs = sum(unicodedata.category(c).startswith("M") for c in sentence)
    if len(letters) + signs < MIN_LETTERS * sum(not c.isspace() for c in sentence):
        return "few_letters"
    if sum(c.isupper() for c in letters) > 0.5 * len(letters):
        return "mostly_capitals"
    foreign = sum(script_of(c) != script for c in letters)
    return "foreign_script" if foreign > MAX_FOREIGN_LETTERS * len(letters) else None


def _balanced(sentence: str) -> bool:
    """Whether every bracket and quotation mark that opens is closed, in the right order."""
    stack: list[str] = []
    for character in sentence:
        if character not in _BRACKETS:
            continue
        if stack and character in _CLOSING_OF[stack[-1]]:
            stack.pop()
        elif character in _CLOSING_OF:
            stack.append(character)
        else:
            return False
    return not stack
