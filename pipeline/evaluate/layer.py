"""Which layer of an encoder BERTScore matches best with: the one that people agree with most on the validation ratings.

Zhang et al. (2020, appendix B) choose it on ratings too. The test rows are not read.
"""

from collections.abc import Sequence
from typing import Any

import numpy

from pipeline.core.errors import ParamsError
from pipeline.core.models import load_config, locate
from pipeline.label.signals.bertscore import Params, bertscore
from pipeline.statistics.correlation import kendall

Row = dict[str, Any]


def layer_kendalls(model: str, rows: Sequence[Row], batch_tokens: int) -> list[float]:
    """Mean Kendall over language pairs of BERTScore's F1 on `rows` (RATINGS), for layer 1, 2, … of the encoder `model`.

    Undefined (NaN) where people's ratings or the scores of every language pair are constant.
    """
    groups: dict[str | None, list[int]] = {}
    for number, row in enumerate(rows):
        groups.setdefault(row["language_pair"], []).append(number)
    human = numpy.array([row["score"] for row in rows], dtype=numpy.float64)
    found = []
    for layer in range(1, load_config(locate(model)).num_hidden_layers + 1):
        settings = Params(model, layer, idf=False, baseline=None, batch_tokens=batch_tokens)
        f1 = bertscore([r["reference"] for r in rows], [r["candidate"] for r in rows], settings)[:, 2]
        taus = numpy.array([kendall(human[members], f1[members].astype(float)) for members in groups.values()])
        found.append(float(numpy.nanmean(taus)) if not numpy.isnan(taus).all() else numpy.nan)
    return found


def best_layer(model: str, rows: Sequence[Row], batch_tokens: int) -> int:
    """The layer, from 1, with the highest Kendall on the validation `rows`; a ParamsError where none is defined."""
    taus = layer_kendalls(model, rows, batch_tokens) if rows else []
    if not taus or numpy.isnan(taus).all():
        raise ParamsError("evaluate.bertscore_layer: is null, but there are no validation ratings to choose it on.")
    return int(numpy.nanargmax(taus)) + 1
