"""Marks that stand in plain text where something was cut out that a reader would miss.

A sentence that still holds a mark is dropped under the mark's reason (`wiki_sentences`): a sentence with a hole is
no reference. What a reader would not miss (a footnote, a pronunciation, an image) leaves no mark. Marks are
private-use characters, which are taken out of the wikitext before anything else.
"""

import re

TEMPLATE = "\ue000"
FORMULA = "\ue001"
CODE = "\ue002"
BROKEN = "\ue003"
URL = "\ue004"
CUT = "\ue005"
"""The rest of the line is unusable: a footnote was opened and never closed."""

PRONUNCIATION = "\ue006"
"""Missed outside brackets only: "Rome (MARK) is a city" is whole, "the sound MARK" is not."""

REASONS = {
    TEMPLATE: "unknown_template",
    FORMULA: "formula",
    CODE: "code",
    BROKEN: "broken_markup",
    URL: "url",
    CUT: "broken_markup",
    PRONUNCIATION: "pronunciation",
}
"""Mark -> reason under which a sentence that holds it is dropped."""

MARKS = "".join(REASONS)
_PRIVATE = re.compile("[\ue000-\uf8ff]")
_ONLY_MARKS = re.compile(rf"[{MARKS}\s.,;:]*")
_AFTER_END = re.compile(rf"(?<=[.!?…])(?P<close>[\"”’)\]]?){TEMPLATE}+(?=\s|$)")


def without_private_use(text: str) -> str:
    """`text` with every private-use character replaced by BROKEN, so that no input can forge another mark."""
    return _PRIVATE.sub(BROKEN, text)


def only_marks(line: str) -> bool:
    """Whether a line held nothing but cut-out pieces, as a template on its own line does."""
    return _ONLY_MARKS.fullmatch(line) is not None


def without_footnote_marks(text: str) -> str:
    """`text` without the unknown templates that directly follow the end of a sentence: they are footnotes there.

    >>> without_footnote_marks("It rained." + TEMPLATE + " It stopped.")
    'It rained. It stopped.'
    """
    return _AFTER_END.sub(lambda match: match["close"], text)
