"""Graded candidates from pairs for natural language inference: a premise is the reference, a hypothesis the candidate.

Rules change a name or a number; people who write such pairs change what they please. What contradicts the premise is
graded low, also where it copies most of its words; what follows from it, higher. How high depends on the table: the
hypotheses of ConjNLI (Saha et al. 2020) are near-copies, those of SNLI (Bowman et al. 2015) say only part of it.
"""

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Self

from pydantic import model_validator

from pipeline.core.params import params
from pipeline.core.records import Reason
from pipeline.files.parallel import Draw, TextSource
from pipeline.files.tables import read_table, text

NO_GRADE = "label without a grade"


@params
class InferenceSource(TextSource):
    """A table of pairs that somebody has judged (`pipeline.files.tables`)."""

    columns: tuple[str, str, str]
    """Names of the columns of the premise, the hypothesis and the label."""
    grades: tuple[tuple[str, float], ...]
    """(label, target), the target in standard deviations of people's ratings from their mean. Rows of other labels are
    left out."""

    @model_validator(mode="after")
    def _grades_something(self) -> Self:
        if not self.grades:
            raise ValueError("grades: must name a label")
        return self


@functools.lru_cache(maxsize=1)
def judged_pairs(sources: Sequence[InferenceSource]) -> Draw[Mapping[str, Any]]:
    """All rows of `sources` that have a grade, as rows of GRADED whose kind is the label; each pair once.

    A pair's id is `<source>-<line>/<label>`. Other rows are counted in `lost`.
    """
    found: dict[tuple[str, str], Mapping[str, Any]] = {}
    lost = Counter[str]()
    for source in sources:
        file, grades = source.file(), dict(source.grades)
        for line, row in read_table(file, source.columns):
            reference, candidate, label = (
                " ".join(text(row[column], column, file, line).split()) for column in source.columns
            )
            reason = _unusable(reference, candidate)
            if label not in grades:
                lost[NO_GRADE] += 1
            elif reason is not None or (reference, candidate) in found:
                lost[(reason or Reason.DUPLICATE).value] += 1
            else:
                found[reference, candidate] = {
                    "pair_id": f"{source.name}-{line}/{label}",
                    "reference": reference,
                    "candidate": candidate,
                    "kind": label,
                    "grade": grades[label],
                }
    return Draw(list(found.values()), lost)


def _unusable(reference: str, candidate: str) -> Reason | None:
    if not reference or not candidate:
        return Reason.EMPTY_TEXT
    return Reason.UNCHANGED if reference == candidate else None
