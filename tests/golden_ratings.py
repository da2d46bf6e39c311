"""What mt-metrics-eval (google-research, April 2026) computes of ratings of 8 systems on 60 segments. For tests."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy

SYSTEMS, ITEMS = 8, 60


@dataclass(frozen=True)
class Golden:
    """Vectors are (systems * items,), a system's items together. `human` is NaN where a rating is missing."""

    human: numpy.ndarray
    human_complete: numpy.ndarray
    metrics: dict[str, numpy.ndarray]
    expected: dict[str, Any]

    def groups(self, averaged: str) -> numpy.ndarray:
        """Labels of the rows that are averaged over: "none", "sys" or "item", as mt-metrics-eval calls them."""
        rows = numpy.arange(SYSTEMS * ITEMS)
        return {"none": 0 * rows, "sys": rows // ITEMS, "item": rows % ITEMS}[averaged]


def read(file: Path) -> Golden:
    """The numbers in `file`."""
    found = json.loads(file.read_text(encoding="utf-8"))
    assert (found["systems"], found["items"]) == (SYSTEMS, ITEMS)
    human = numpy.array([numpy.nan if rating is None else rating for rating in found["human"]])
    metrics = {name: numpy.array(found[name]) for name in ("one", "two")}
    return Golden(human, numpy.array(found["human_complete"], dtype=float), metrics, found["expected"])
