"""What happens to unusual texts. The version of this policy is in every signature.

No score is ever replaced: the model reads every pair, and a pair whose score needs a second look is flagged.

| text | what happens |
|---|---|
| character references (`&quot;`, `&#39;`) | undone once, as `collect` does, unless the user keeps them (see below) |
| byte order mark, control characters, zero-width spaces | removed |
| line breaks (LF, CR, CRLF, Unicode's), tabs, runs of white space | one space; none at the ends |
| candidate that is empty, or empty after removing these | scored; flag `empty_candidate` |
| empty reference | scored, though the number says little; flag `empty_reference` |
| both empty | scored, though the number says nothing; flag `both_empty` |
| several references, some empty | the empty ones are left out |
| candidate equal to a reference | scored, so not always the same number; flag `identical` |
| empty source, if the checkpoint reads sources and no references | scored; flag `empty_source`, or `both_empty` |
| candidate equal to the source, if a source is given | scored; flag `source_copy` |
| emoji, other scripts | scored; flag `unknown_words` if the model knows less than half of the candidate's tokens |
| half of a surrogate pair, or bytes that are not UTF-8 | refused; the error names the line |

The metric was trained on texts as people saw them, so a text has the same score with `&quot;` as with the character. A
text that was escaped twice keeps one layer (`&amp;quot;` is read as `&quot;`), as `collect` leaves it; a reference
without its semicolon stays as it is. The signature says whether references are "undone" or "kept".
"""

import enum
import re
from collections.abc import Sequence

from pipeline.files.character_references import unescaped

VERSION = "2"
"""Changes with every change to this policy."""

UNKNOWN_SHARE = 0.5
"""A candidate is flagged if a larger share of its tokens is unknown."""

_REMOVED = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u200b\u2060\ufeff]")


class Edge(enum.StrEnum):
    """Why a score needs a second look; a pair has one flag, the first that applies."""

    BOTH_EMPTY = "both_empty"
    EMPTY_CANDIDATE = "empty_candidate"
    EMPTY_REFERENCE = "empty_reference"
    EMPTY_SOURCE = "empty_source"
    IDENTICAL = "identical"
    SOURCE_COPY = "source_copy"
    UNKNOWN_WORDS = "unknown_words"


class CharacterReferences(enum.StrEnum):
    """What happens to `&quot;` and the like."""

    UNDONE = "undone"  # once
    KEPT = "kept"


def clean(text: str, character_references: CharacterReferences = CharacterReferences.UNDONE) -> str:
    r"""`text` as the model reads it.

    >>> clean("\ufeffTwo\x00 lines,\r\n\tone  &quot;text&quot;.&nbsp; ")
    'Two lines, one "text".'
    """
    if character_references is CharacterReferences.UNDONE:
        text = unescaped(text)
    return " ".join(_REMOVED.sub("", text).split())


def used_references(references: Sequence[str]) -> tuple[str, ...]:
    """Those of the cleaned references that are not empty, each once; if all are empty, one empty reference.

    >>> used_references(["a", "", "b", "a"]), used_references(["", ""])
    (('a', 'b'), ('',))
    """
    return tuple(dict.fromkeys(text for text in references if text)) or ("",)


def edge(references: Sequence[str], candidate: str, source: str | None = None) -> Edge | None:
    """The flag of cleaned texts; no `references` if none are read. UNKNOWN_WORDS needs tokens, so it is not found here.

    >>> edge(["a b"], ""), edge(["a", "b"], "b", "b"), edge(["a"], "b", "b"), edge(["a"], "b")
    (<Edge.EMPTY_CANDIDATE: 'empty_candidate'>, <Edge.IDENTICAL: 'identical'>, <Edge.SOURCE_COPY: 'source_copy'>, None)
    """
    known = any(references) if references else bool(source)
    if not candidate:
        return Edge.EMPTY_CANDIDATE if known else Edge.BOTH_EMPTY
    if not known:
        return Edge.EMPTY_REFERENCE if references else Edge.EMPTY_SOURCE
    if candidate in references:
        return Edge.IDENTICAL
    return Edge.SOURCE_COPY if source and candidate == source else None
