"""BERTScore precision, recall and F1 (section 4.2, A.3), by `pipeline.teachers.matching`.

The paper uses its own implementation over BERT-large, uncased; here the model and the layer are parameters.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy
import pyarrow
from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from pipeline.core.models import locate
from pipeline.core.params import AtLeastOne, AtLeastZero, ModelName, params
from pipeline.teachers import matching

COLUMNS = ("bertscore_precision", "bertscore_recall", "bertscore_f1")
"""At most 1 each; higher is better."""


def _baseline(value: Any) -> Any:
    numbers = value if isinstance(value, list | tuple) else ()
    three = len(numbers) == 3 and all(type(one) in (int, float) and -math.inf < one < 1 for one in numbers)
    if three or isinstance(value, str | None):
        return tuple(numbers) if three else value
    rule = "must be three numbers below 1, a language or null, not {shown}"
    raise PydanticCustomError("baseline", rule, {"shown": repr(value)})


Baseline = Annotated[tuple[float, float, float] | str | None, BeforeValidator(_baseline)]
"""The values of unrelated pairs: precision, recall and F1; or the language of bert-score's table of them; or null."""


@params
class Params:
    """The encoder, its layer and the weights; more in `pipeline.teachers.matching.Matching`.

    `layer`: null for the layer that bert-score's authors tuned, or the last one if they did not (see
    `matching.tuned_layer`; for the packaged MiniLM: 6, its last). `baseline`: rescales the values so that those of
    unrelated pairs become 0 and 1 stays 1; null for none.
    """

    model: ModelName
    layer: AtLeastZero | None
    idf: bool
    baseline: Baseline
    batch_tokens: AtLeastOne


def models(params: Params) -> tuple[Path, ...]:
    """The encoder's folder; a baseline that bert-score does not have fails here, before any work."""
    _baseline_of(params)
    return (locate(params.model),)


def score(pairs: pyarrow.Table, params: Params) -> numpy.ndarray:
    """Precision, recall and F1 of each pair, (rows, 3) float32."""
    return bertscore(pairs.column("reference").to_pylist(), pairs.column("candidate").to_pylist(), params)


def bertscore(references: Sequence[str], candidates: Sequence[str], params: Params) -> numpy.ndarray:
    """BERTScore of each candidate against its reference, (n, 3) float32: precision, recall, F1; rescaled if asked."""
    settings = matching.Matching(params.model, _layer(params), params.idf, params.batch_tokens)
    values = matching.bertscore(references, candidates, settings)
    if params.baseline is None:
        return values
    baseline = numpy.array(_baseline_of(params), dtype=numpy.float32)
    return numpy.asarray((values - baseline) / (1 - baseline), dtype=numpy.float32)


def _layer(params: Params) -> int:
    return matching.tuned_layer(params.model) if params.layer is None else params.layer


def _baseline_of(params: Params) -> tuple[float, float, float] | None:
    if isinstance(params.baseline, str):
        return matching.package_baseline(params.model, _layer(params), params.baseline)
    return params.baseline
