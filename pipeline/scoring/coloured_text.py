"""Attributed words as coloured text: in a terminal, and as one HTML page that fetches nothing when it opens.

Orange words cost score, blue words added to it; the darker, the more, on one scale for all pairs that are shown
together. Without colour (NO_COLOR, a file, a pipe) the number follows the word. No text from the data reaches the
terminal or the page as a command: in the terminal control characters become a dot, on the page Jinja escapes all texts.
"""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from pipeline.report.page import render

if TYPE_CHECKING:
    from pipeline.scoring.attribution import Attribution, Word

LEVELS = 5
COST_COLOURS, GAIN_COLOURS = (230, 223, 216, 209, 202), (195, 153, 117, 81, 39)
"""Backgrounds of an ANSI terminal's 256 colours, faint to strong; the text on them is black."""

LISTED_WORDS = 5
"""How many words of a pair are listed, at most, as those that cost most."""


@dataclass(frozen=True)
class Panel:
    """One explained pair. `line` counts from 1; `score` is the segment's, over all its references and windows.

    `signals`: signal -> column -> predicted value; empty if the checkpoint keeps no head of pre-training. `notes` say
    what else a reader should know.
    """

    line: int
    reference: str
    candidate: str
    score: float
    attribution: "Attribution"
    signals: Mapping[str, Mapping[str, float]]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Piece:
    """A part of a sentence: a word with its value, or text between words, whose value is None."""

    text: str
    value: float | None


def pieces(text: str, words: "Sequence[Word]") -> list[Piece]:
    """`text` cut at the bounds of `words`; the pieces together are all of it.

    >>> from pipeline.scoring.attribution import Word
    >>> pieces("a cat.", (Word(2, 5, -0.5),))
    [Piece(text='a ', value=None), Piece(text='cat', value=-0.5), Piece(text='.', value=None)]
    """
    found: list[Piece] = []
    place = 0
    for word in words:
        start = max(word.start, place)
        if start > place:
            found.append(Piece(text[place:start], None))
        if word.end > start:
            found.append(Piece(text[start : word.end], word.value))
            place = word.end
    return [*found, Piece(text[place:], None)] if place < len(text) else found


def sides(panel: Panel) -> list[tuple[str, list[Piece]]]:
    """Both sentences of a panel in pieces, the reference first."""
    return [
        ("reference", pieces(panel.reference, panel.attribution.reference)),
        ("candidate", pieces(panel.candidate, panel.attribution.candidate)),
    ]


def scale(panels: Sequence[Panel]) -> float:
    """The largest absolute attribution of all words, which gets the strongest colour; 0 if there is no word."""
    words = [word for p in panels for word in (*p.attribution.reference, *p.attribution.candidate)]
    return max((abs(word.value) for word in words), default=0.0)


def level(value: float | None, largest: float) -> int:
    """Strength of a colour, 0 (none) to LEVELS, with the sign of `value`; below a tenth of `largest` there is none.

    >>> level(-0.5, 0.5), level(0.2, 0.5), level(0.04, 0.5), level(None, 0.5)
    (-5, 2, 0, 0)
    """
    if value is None or largest <= 0 or abs(value) < largest / 10:
        return 0
    return int(math.copysign(math.ceil(LEVELS * abs(value) / largest - 1e-9), value))


def costly(panel: Panel) -> list[tuple[str, str, float]]:
    """(side, word, value) of the words that cost most, the most expensive first; only words with negative values."""
    words = [(name, piece.text, piece.value) for name, found in sides(panel) for piece in found]
    negative = [(name, text, value) for name, text, value in words if value is not None and value < 0]
    return sorted(negative, key=lambda entry: entry[2])[:LISTED_WORDS]


def coloured(stream: TextIO) -> bool:
    """Whether `stream` may be coloured: it is a terminal, not a dumb one, and NO_COLOR is not set (no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def terminal(panels: Sequence[Panel], method: str, colour: bool) -> str:
    """All panels as text, with ANSI colours or with numbers."""
    largest = scale(panels)
    blocks = ["\n".join(_panel_lines(panel, largest, colour)) for panel in panels]
    legend = f"Method: {method}. Negative words cost score"
    if colour:
        legend += f" ({_paint('cost', -LEVELS)} {_paint('gain', LEVELS)})"
    return "\n\n".join([*blocks, f"{legend}."])


def _panel_lines(panel: Panel, largest: float, colour: bool) -> list[str]:
    lines = [f"line {panel.line}: score {panel.score:.3f} ({completeness(panel.attribution)})"]
    for name, found in sides(panel):
        shown = [_show(piece, level(piece.value, largest), colour) for piece in found]
        lines.append(f"  {name}  {''.join(shown) or '(empty)'}")
    if words := costly(panel):
        lines.append(
            "  costs most: " + ", ".join(f"{plain(text)} {value:+.3f} ({name})" for name, text, value in words)
        )
    lines += [f"  {line}" for line in signal_lines(panel.signals)]
    return lines + [f"  note: {note}" for note in panel.notes]


def completeness(found: "Attribution") -> str:
    """What the attributions sum to, in words."""
    whole = found.score - found.baseline
    return f"baseline {found.baseline:.3f}, words sum to {whole - found.gap:+.3f} of {whole:+.3f}, {found.steps} steps"


def signal_lines(signals: Mapping[str, Mapping[str, float]]) -> list[str]:
    """One line for every signal of pre-training.

    >>> signal_lines({"rouge": {"rouge_precision": 0.5, "rouge_recall": 0.25}})
    ['rouge: precision 0.50, recall 0.25']
    """
    return [
        f"{group}: " + ", ".join(f"{column_name(group, column)} {value:.2f}" for column, value in columns.items())
        for group, columns in signals.items()
    ]


def column_name(group: str, column: str) -> str:
    """A column of the signal `group` in words, without the signal's name; "value" if nothing else is left."""
    return column.removeprefix(group).strip("_").replace("_", " ") or "value"


def plain(text: str) -> str:
    """Text that cannot command a terminal: every character that is not printable becomes a dot."""
    return "".join(character if character.isprintable() else "·" for character in text)


def _show(piece: Piece, strength: int, colour: bool) -> str:
    text = plain(piece.text)
    if not strength:
        return text
    return _paint(text, strength) if colour else f"{text}({piece.value:+.2f})"


def _paint(text: str, strength: int) -> str:
    background = (GAIN_COLOURS if strength > 0 else COST_COLOURS)[abs(strength) - 1]
    return f"\x1b[38;5;16;48;5;{background}m{text}\x1b[0m"


def page(panels: Sequence[Panel], method: str, signature: str) -> str:
    """All panels as one HTML page, with `signature` at its top."""
    largest = scale(panels)
    views = [
        {
            "panel": panel,
            "sides": [(name, [_mark(piece, largest) for piece in found]) for name, found in sides(panel)],
            "costly": costly(panel),
            "completeness": completeness(panel.attribution),
        }
        for panel in panels
    ]
    return render("explain", panels=views, method=method, signature=signature, column_name=column_name)


def _mark(piece: Piece, largest: float) -> dict[str, str]:
    strength = level(piece.value, largest)
    if piece.value is None or not strength:
        return {"text": piece.text, "strength": ""}
    share = f"{0.75 * abs(strength) / LEVELS:.2f}"
    kind = "gain" if strength > 0 else "cost"
    return {"text": piece.text, "strength": share, "kind": kind, "value": f"{piece.value:+.4f}"}
