"""Backtranslation flag (section 4.2): was the candidate made by backtranslation or by mask-filling?

Dropped words do not change it: such a pair keeps its parent's technique. A pair of any other technique (the output of a
real system, say) is neither, and there is no third class: its target is (0.5, 0.5). Then the cross-entropy asks for no
opinion, and the row still serves the other signals.
"""

from pathlib import Path

import numpy
import pyarrow

from pipeline.core.params import params

COLUMNS = ("flag_backtranslation", "flag_mask_fill")
"""A probability each; their sum is 1."""

TARGETS = {"backtranslate": (1.0, 0.0), "mask_fill": (0.0, 1.0)}
NEITHER = (0.5, 0.5)


@params
class Params:
    """Nothing to choose."""


def models(params: Params) -> tuple[Path, ...]:
    """None."""
    return ()


def score(pairs: pyarrow.Table, params: Params) -> numpy.ndarray:
    """Target of each pair, (rows, 2) float32: (backtranslation, mask-filling), sum 1."""
    rows = [TARGETS.get(technique, NEITHER) for technique in pairs.column("technique").to_pylist()]
    return numpy.array(rows, numpy.float32).reshape(-1, 2)
