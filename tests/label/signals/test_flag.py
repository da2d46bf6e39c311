"""The backtranslation flag."""

import pyarrow

from pipeline.label.signals.flag import Params, score


def test_each_technique_has_its_class_and_others_have_none() -> None:
    pairs = pyarrow.table({"technique": ["backtranslate", "mask_fill", "system_output", "backtranslate"]})
    values = score(pairs, Params())
    assert values.tolist() == [[1, 0], [0, 1], [0.5, 0.5], [1, 0]]
    assert values.dtype == "float32"
