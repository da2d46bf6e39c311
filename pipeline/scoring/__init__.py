"""The metric as its users meet it: scores, comparisons and explanations, in Python and on the command line.

>>> from pipeline.scoring import BleurtScorer                                                      # doctest: +SKIP
>>> BleurtScorer().score(references=["The cat sat."], candidates=["A cat was sitting."])           # doctest: +SKIP
[0.71]

Importing this package costs nothing: torch is loaded with the first name that is taken from it.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.scoring.scorer import BleurtScorer, Scored

__all__ = ["BleurtScorer", "Scored"]


def __getattr__(name: str) -> Any:
    """`BleurtScorer` and `Scored`, loaded when first asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pipeline.scoring import scorer

    return getattr(scorer, name)
