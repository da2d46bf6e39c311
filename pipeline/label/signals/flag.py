"""Backtranslation flag (section 4.2): was the candidate made by backtranslation or by mask-filling?

Dropped words do not change it: such a pair keeps its parent's technique. A pair of any other origin (a real system's
output, say) is neither, and no third class exists: its target is (0.5, 0.5), so that the cross-entropy asks for no
opinion and the row still serves the other signals.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy
import pyarrow

TARGETS = {"backtranslate": (1.0, 0.0), "mask_fill": (0.0, 1.0)}
NEITHER = (0.5, 0.5)


@dataclass(frozen=True)
class Params:
    """Nothing to choose."""


def models(params: Params) -> tuple[Path, ...]:
    """None."""
    return ()


def score(pairs: pyarrow.Table, params: Params) -> numpy.ndarray:
    """Target of each pair, (rows, 2) float32: (backtranslation, mask-filling), sum 1."""
    rows = [TARGETS.get(technique, NEITHER) for technique in pairs.column("technique").to_pylist()]
    return numpy.array(rows, numpy.float32).reshape(-1, 2)
