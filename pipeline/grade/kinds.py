"""Candidates whose quality is known from how they are made. Users meet such texts, but no one has rated them.

Beyond the paper, in the spirit of its word dropping ("pathological" output, section 4.1): a copy, a paraphrase, one
wrong name, number or negation, an invented clause, loops, scrambled words, half a sentence, the source left
untranslated, another sentence, nothing. The rules know only English.
"""

import enum
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy

Random = numpy.random.Generator
T = TypeVar("T")


class Kind(enum.StrEnum):
    """What was done to the reference; the keys of `grade.kinds` in params.yaml."""

    IDENTICAL = "identical"
    PARAPHRASE = "paraphrase"
    WRONG_NAME = "wrong_name"
    WRONG_NUMBER = "wrong_number"
    NEGATED = "negated"
    EXTRA_CLAUSE = "extra_clause"
    REPEATED = "repeated"
    SCRAMBLED = "scrambled"
    HALF = "half"
    UNTRANSLATED = "untranslated"
    UNRELATED = "unrelated"
    EMPTY = "empty"


@dataclass(frozen=True)
class Sentence:
    """A reference. If they are known, also a paraphrase, and the same sentence in another language."""

    id: str
    text: str
    paraphrase: str | None = None
    foreign: str | None = None


@dataclass(frozen=True)
class Pool:
    """Where wrong parts come from: other sentences, and the names in them, each as often as it occurs."""

    texts: Sequence[str]
    names: Sequence[str]


def _words(text: str) -> list[str]:
    return text.split()


WEEKDAYS = _words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
MONTHS = _words("January February March April June July August September October November December")
NUMBER_WORDS = _words("two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty hundred")
AUXILIARIES = _words("is are was were can could will would should must may might")
NEGATIONS = {
    r"\b([Cc]an)(?:not|['’]t)\b": r"\1",
    r"\b([Ww])on['’]t\b": r"\1ill",
    r"(?<!\bor) not\b(?! only\b)": "",
    r"(?<!\b[Aa]i)(?<!\b[Ss]ha)n['’]t\b": "",
}
"""Pattern of a negation -> what remains of it when the text no longer negates."""
_OPPOSITES = _words(
    "always never before after more less increased decreased rose fell won lost first last opened closed accepted "
    "rejected with without many few all none possible impossible likely unlikely began ended above below better worse "
    "higher lower allowed forbidden everyone nobody everything nothing oldest youngest largest smallest"
)
OPPOSITES = dict(zip(_OPPOSITES[::2], _OPPOSITES[1::2], strict=True))
OPPOSITES |= {other: one for one, other in OPPOSITES.items()}

_NAME = re.compile(r"(?<=[a-z,] )[A-Z][^\W\d_]*[^\W\d_A-Z](?: [A-Z][^\W\d_]*[^\W\d_A-Z])*\b")
_DIGITS = re.compile(r"\d+")
_AUXILIARY = re.compile(rf"\b(?:{'|'.join(AUXILIARIES)})\b(?!['’]| (?:I|you|he|she|it|we|they)\b)")  # no question's
_LAST_CLAUSE = re.compile(r"(?:, | and | because | when | while | but )[^,]{12,90}[.!?]$")


def names_in(text: str) -> list[str]:
    """Capitalised words that do not begin the sentence; neighbours make one name.

    >>> names_in("Yesterday the mayor of New York met Anna.")
    ['New York', 'Anna']
    """
    return _NAME.findall(text)


def wrong_name(text: str, pool: Pool, rng: Random) -> str | None:
    """`text` with one name replaced: a weekday or a month by another one, any other name by one from the pool.

    A name from the pool has as many words as the one that it replaces. None if there is nothing to replace.
    """
    places = list(_NAME.finditer(text))
    if not places:
        return None
    place = _one(places, rng)
    name = place.group()
    family = next((days for days in (WEEKDAYS, MONTHS) if name in days), None)
    if family is None:
        family = [other for other in _some(pool.names, 20, rng) if len(other.split()) == len(name.split())]
        family = [other for other in family if other not in (*WEEKDAYS, *MONTHS)]
    others = [other for other in family if other not in text]
    return text[: place.start()] + _one(others, rng) + text[place.end() :] if others else None


def wrong_number(text: str, pool: Pool, rng: Random) -> str | None:
    """`text` with one number changed: one of its digits, or a number word. None if there is no number."""
    digits = list(_DIGITS.finditer(text))
    words = [match for word in NUMBER_WORDS for match in re.finditer(rf"\b{word}\b", text)]
    if not digits and not words:
        return None
    place = int(rng.integers(len(digits) + len(words)))
    match = [*digits, *words][place]
    if place >= len(digits):
        other = _one([word for word in NUMBER_WORDS if word != match.group()], rng)
    else:
        place = int(rng.integers(len(match.group())))
        old = match.group()[place]
        new = _one([d for d in ("123456789" if place == 0 else "0123456789") if d != old], rng)
        other = match.group()[:place] + new + match.group()[place + 1 :]
    return text[: match.start()] + other + text[match.end() :]


def negated(text: str, pool: Pool, rng: Random) -> str | None:
    """`text` with its meaning reversed: without its "not", with a "not" after an auxiliary, or with an opposite word.

    None if there is no such place.
    """
    ways: list[str] = []
    for pattern, replacement in NEGATIONS.items():
        if not ways and re.search(pattern, text):
            ways.append(re.sub(pattern, replacement, text, count=1))
    if not ways:
        for match in _AUXILIARY.finditer(text):
            ways.append(f"{text[: match.end()]} not{text[match.end() :]}")
    for match in re.finditer(r"(?<!-)\b[a-z]+\b(?!['’-])", text):
        if match.group() in OPPOSITES:
            ways.append(text[: match.start()] + OPPOSITES[match.group()] + text[match.end() :])
    return _one(ways, rng) if ways else None


def extra_clause(text: str, pool: Pool, rng: Random) -> str | None:
    """`text` with the last clause of another sentence at its end.

    None if `text` does not end like a sentence, or if ten draws from the pool give no clause.
    """
    if text[-1] not in ".!?":
        return None
    for other in _some(pool.texts, 10, rng):
        clause = _LAST_CLAUSE.search(other)
        if clause and other != text:
            return text[:-1] + clause.group()
    return None


def repeated(text: str, pool: Pool, rng: Random) -> str | None:
    """`text` with one to four of its words said three to seven times. Half of the time the text ends there.

    None if the text has too few words.
    """
    words = text.split()
    length = int(rng.integers(1, 5))
    if len(words) < length + 2:
        return None
    start = int(rng.integers(len(words) - length + 1))
    loop = words[start : start + length] * int(rng.integers(3, 8))
    rest = words[start + length :] if rng.random() < 0.5 else []
    return " ".join(words[:start] + loop + rest)


def scrambled(text: str, pool: Pool, rng: Random) -> str | None:
    """The words of `text` in random order. None if there are fewer than four."""
    words = text.split()
    return " ".join(words[i] for i in rng.permutation(len(words))) if len(words) > 3 else None


def half(text: str, pool: Pool, rng: Random) -> str | None:
    """The first or the last 30 to 60% of the words of `text`. None if there are fewer than four."""
    words = text.split()
    if len(words) < 4:
        return None
    kept = max(1, round(len(words) * rng.uniform(0.3, 0.6)))
    return " ".join(words[:kept] if rng.random() < 0.7 else words[-kept:])


def unrelated(text: str, pool: Pool, rng: Random) -> str | None:
    """Another sentence. None if three draws from the pool give only `text`."""
    return next((other for other in _some(pool.texts, 3, rng) if other != text), None)


def empty(text: str, pool: Pool, rng: Random) -> str | None:
    """Nothing, or a full stop."""
    return "" if rng.random() < 0.7 else "."


WAYS: Mapping[Kind, Callable[[str, Pool, Random], str | None]] = {
    Kind.IDENTICAL: lambda text, pool, rng: text,
    Kind.WRONG_NAME: wrong_name,
    Kind.WRONG_NUMBER: wrong_number,
    Kind.NEGATED: negated,
    Kind.EXTRA_CLAUSE: extra_clause,
    Kind.REPEATED: repeated,
    Kind.SCRAMBLED: scrambled,
    Kind.HALF: half,
    Kind.UNRELATED: unrelated,
    Kind.EMPTY: empty,
}
"""How to make the kinds that need only the text. The result is None if the text does not allow it."""


def candidate(kind: Kind, sentence: Sentence, pool: Pool, rng: Random) -> str | None:
    """A candidate of `kind` for `sentence`, or None if there is none."""
    if kind is Kind.PARAPHRASE:
        return sentence.paraphrase
    if kind is Kind.UNTRANSLATED:
        return sentence.foreign
    return WAYS[kind](sentence.text, pool, rng)


def _one(options: Sequence[T], rng: Random) -> T:
    return options[int(rng.integers(len(options)))]


def _some(options: Sequence[str], count: int, rng: Random) -> list[str]:
    return [options[i] for i in rng.integers(len(options), size=count)] if options else []
