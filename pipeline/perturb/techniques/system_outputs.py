"""Outputs of real systems beside human references, unrated: a technique of its own beside the paper's three.

Mask-filling and backtranslation imitate the errors of systems; old evaluation campaigns hold the errors themselves
(WMT13: 280,000 translations of 3,000 sentences). No rating is read: the targets are the same automatic signals.
"""

import functools
from collections import Counter
from dataclasses import dataclass
from typing import Any

from pipeline.core.errors import InputError, ParamsError
from pipeline.core.records import Reason
from pipeline.core.scripts import length
from pipeline.core.seeds import generator
from pipeline.files.parallel import Draw, TextSource, hold_distinct
from pipeline.files.tables import read_table, table_files
from pipeline.perturb.attempts import Attempt, Technique, hold_within, pair

Row = dict[str, Any]


@dataclass(frozen=True)
class SystemOutputsParams:
    """`pairs` of them are drawn from all sources together, 0 for none; a side longer than `max_words` is left out.

    A source is a table, or a folder of tables, with the columns `reference` and `candidate`.
    """

    sources: tuple[TextSource, ...]
    pairs: int
    max_words: int

    def __post_init__(self) -> None:
        hold_within("perturb.system_outputs.pairs", self.pairs, 0)
        hold_within("perturb.system_outputs.max_words", self.max_words, 1)
        hold_distinct("perturb.system_outputs.sources", self.sources)
        if self.pairs and not self.sources:
            raise ParamsError(f"perturb.system_outputs.pairs: is {self.pairs}, but there are no sources.")


@functools.lru_cache(maxsize=1)
def drawn(params: SystemOutputsParams, seed: int) -> Draw[Row]:
    """`params.pairs` rows (PAIRS) in random order, or all where there are fewer; a text beside itself is no pair.

    The ids are `<source>-<reference>` for the segment, counted as references first appear, and
    `<segment>/output<row>` for the pair, with the row of the source.
    """
    rows: list[Row] = []
    lost: Counter[str] = Counter()
    if params.pairs:
        for source in params.sources:
            rows += _read(source, params.max_words, lost)
    return Draw.of(rows, lost, params.pairs, generator(seed, "perturb", "system_outputs"))


def _read(source: TextSource, max_words: int, lost: Counter[str]) -> list[Row]:
    """All usable rows of one source, the first of equal pairs alone; the others are counted in `lost`."""
    references: dict[str, int] = {}
    found: dict[tuple[str, str], Row] = {}
    number = 0
    for file in table_files(source.file()):
        for line, columns in read_table(file, ["reference", "candidate"]):
            number += 1
            texts = columns["reference"], columns["candidate"]
            for name, text in zip(("reference", "candidate"), texts, strict=True):
                if not isinstance(text, str):
                    raise InputError(f"the {name} is not text", file=file, line=line, value=text)
            reference, candidate = (" ".join(text.split()) for text in texts)
            if reason := _unusable(reference, candidate, max_words):
                lost[reason.value] += 1
                continue
            if (reference, candidate) in found:
                lost[Reason.DUPLICATE.value] += 1
                continue
            segment = f"{source.name}-{references.setdefault(reference, len(references) + 1)}"
            found[reference, candidate] = pair(
                segment, reference, Attempt(0, f"output{number}", Technique.SYSTEM_OUTPUT, candidate)
            )
    return list(found.values())


def _unusable(reference: str, candidate: str, max_words: int) -> Reason | None:
    if not reference or not candidate:
        return Reason.EMPTY_TEXT
    if reference == candidate:
        return Reason.UNCHANGED
    return Reason.WORDS if max(length(reference), length(candidate)) > max_words else None
