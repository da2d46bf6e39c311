"""GPTRank (after Liu et al. 2023): a language model ranks the candidates of one reference.

gptrank: it sees up to `list_size` candidates at once, explains itself and ranks them, ties allowed. gptrank_pairwise:
it sees two at a time, in both orders. A candidate's score is the share of the others that it beats, a tie counting a
half: from 0 to 1. Scores compare the candidates of one reference (Kendall by segment, DARR), not of different ones; a
candidate without rivals has no number. An answer that cannot be understood is a tie of all that it is about, and
counted. Candidates stand in an order drawn by the seed, so that no system gains by its place; more than `list_size`
are dealt into several lists. The prompts are templates (`pipeline/evaluate/prompts`, or a folder of one's own).

`pipeline.teachers.judge` says how answers are asked for and kept. What they took goes to standard error.
"""

import itertools
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from string import ascii_uppercase
from typing import Annotated

import numpy
from pydantic import Field

from pipeline.core.errors import InputError
from pipeline.core.params import params
from pipeline.core.shards import generator
from pipeline.evaluate.metrics import Metric, Reads, Section, Texts
from pipeline.teachers.judge import Judge, JudgeParams, described

PROMPTS = Path(__file__).resolve().parents[1] / "prompts"
LISTS, PAIRS = "lists", "pairs in both orders"


@params
class Params:
    """Section `evaluate.gptrank`: the judge; candidates of a list; a folder of prompts, null for ours; the seed."""

    judge: JudgeParams
    list_size: Annotated[int, Field(ge=2, le=26)]
    prompts: str | None
    seed: int


@dataclass(frozen=True)
class Contest:
    """Candidates that are shown together, in their order: `rows` are their places among all texts."""

    reference: str
    rows: tuple[int, ...]


def ranked(answer: str, count: int) -> list[int] | None:
    """The rank of each of `count` candidates, 0 for the best, equal for ties; None if the answer cannot be understood.

    >>> ranked("A is wrong.\\nRanking: B > A = C", 3), ranked("Ranking: A > A > B", 3)
    ([1, 0, 1], None)
    """
    lines = re.findall(r"^\W*ranking\W*:(.*)$", answer, re.IGNORECASE | re.MULTILINE)
    order = re.sub(r"[*_`.\[\]()\s]", "", lines[-1]).upper() if lines else ""
    steps = [step.split("=") for step in order.split(">")]
    letters = [letter for step in steps for letter in step]
    if sorted(letters) != list(ascii_uppercase[:count]):
        return None
    ranks = {letter: rank for rank, step in enumerate(steps) for letter in step}
    return [ranks[letter] for letter in ascii_uppercase[:count]]


def preferred(answer: str, count: int) -> list[int] | None:
    """As `ranked`, of the answer to a question for the better of two.

    >>> preferred("Preference: B", 2), preferred("**Preference:** tie.", 2), preferred("Both are fine.", 2)
    ([1, 0], [0, 0], None)
    """
    found = re.findall(r"^\W*preference\W*:\W*(A|B|tie)\b", answer, re.IGNORECASE | re.MULTILINE)
    return {"A": [0, 1], "B": [1, 0], "TIE": [0, 0]}[found[-1].upper()] if found else None


def _groups(texts: Texts) -> Iterator[tuple[str, list[int]]]:
    """Each reference with the rows of its candidates, if there are two at least."""
    rows: dict[str, list[int]] = {}
    for row, reference in enumerate(texts.reference):
        rows.setdefault(reference, []).append(row)
    return ((reference, mine) for reference, mine in rows.items() if len(mine) > 1)


def _lists(texts: Texts, settings: Params) -> Iterator[Contest]:
    for reference, rows in _groups(texts):
        rows = sorted(rows, key=lambda row: texts.candidates[row])
        drawn = generator(settings.seed, "gptrank", reference).permutation(rows)
        for part in numpy.array_split(drawn, -(-len(rows) // settings.list_size)):
            yield Contest(reference, tuple(part.tolist()))


def _pairs(texts: Texts, settings: Params) -> Iterator[Contest]:
    for reference, rows in _groups(texts):
        for one, other in itertools.permutations(rows, 2):
            yield Contest(reference, (one, other))


def _score(pairwise: bool, texts: Texts, settings: Params, batch_tokens: int) -> numpy.ndarray:
    """The share of rivals that each candidate beats, (n,)."""
    contests = list((_pairs if pairwise else _lists)(texts, settings))
    judge = Judge(settings.judge)
    answers = judge.answers(_prompts(contests, texts, settings, "preference" if pairwise else "ranking"))
    read = preferred if pairwise else ranked
    ranks = [read(answer, len(contest.rows)) for contest, answer in zip(contests, answers, strict=True)]
    if contests:
        name = f"gptrank{'_pairwise' if pairwise else ''}"
        unclear = f"{ranks.count(None):,} of {len(ranks):,} answers could not be understood and count as ties"
        print(f"{name}: {unclear}; {described(judge.usage)}", file=sys.stderr)
    return beaten(contests, ranks, len(texts.candidates))


def beaten(contests: Sequence[Contest], ranks: Sequence[list[int] | None], count: int) -> numpy.ndarray:
    """The share of its rivals that each of `count` candidates beats, a tie counting a half; NaN without rivals."""
    won, met = numpy.zeros(count), numpy.zeros(count)
    for contest, found in zip(contests, ranks, strict=True):
        places = numpy.zeros(len(contest.rows)) if found is None else numpy.array(found)
        points = (places[:, None] < places).sum(axis=1) + (places[:, None] == places).sum(axis=1) / 2 - 0.5
        won[list(contest.rows)] += points
        met[list(contest.rows)] += len(contest.rows) - 1
    return numpy.where(met > 0, won / numpy.maximum(met, 1), numpy.nan)


def _prompts(contests: Sequence[Contest], texts: Texts, settings: Params, name: str) -> list[str]:
    from jinja2 import Environment, StrictUndefined, TemplateError

    file = (PROMPTS if settings.prompts is None else Path(settings.prompts)) / f"{name}.txt.jinja"
    try:
        source = file.read_text(encoding="utf-8")
        template = Environment(undefined=StrictUndefined, trim_blocks=True, autoescape=False).from_string(source)
        return [
            template.render(
                reference=contest.reference,
                candidates=dict(zip(ascii_uppercase, (texts.candidates[row] for row in contest.rows), strict=False)),
            )
            for contest in contests
        ]
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", file=file) from error
    except TemplateError as error:
        raise InputError(f"is no usable template ({error})", file=file) from error


def _signature(what: str, settings: Params) -> str:
    where = "" if settings.judge.endpoint is None else " behind an endpoint"
    size = f" of up to {settings.list_size}" if what == LISTS else ""
    prompts = "" if settings.prompts is None else f", prompts of {settings.prompts}"
    return (
        f"share of rivals beaten by the judge {settings.judge.model}{where}, {what}{size}, "
        f"answers of up to {settings.judge.max_new_tokens} tokens{prompts}, seed {settings.seed}"
    )


def _models(settings: Params) -> tuple[str, ...]:
    return (settings.judge.model,) if settings.judge.endpoint is None else ()


SECTION = Section("gptrank", Params, _models)
READS = Reads.REFERENCE | Reads.CANDIDATE
METRICS = (
    Metric("gptrank", READS, partial(_score, False), partial(_signature, LISTS), section=SECTION),
    Metric("gptrank_pairwise", READS, partial(_score, True), partial(_signature, PAIRS), section=SECTION),
)
