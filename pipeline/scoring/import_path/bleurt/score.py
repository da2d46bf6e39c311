"""`from bleurt import score`: the original's scorers, computed by `pipeline.scoring`.

>>> scorer = score.BleurtScorer("BLEURT-20")                                                       # doctest: +SKIP
>>> scorer.score(references=["The cat sat."], candidates=["A cat sat."])                           # doctest: +SKIP
[0.87]

Without a checkpoint the original scores with its test checkpoint; here that is the bundled metric. `python -m
bleurt.score` takes the flags of `python -m bleurt.score_files`.
"""

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.core.errors import BleurtError
from pipeline.scoring.scorer import BleurtScorer as Scorer


class BleurtScorer:
    """A checkpoint that scores; it is a folder, or a name as in params.yaml."""

    def __init__(self, checkpoint: str | Path | None = None) -> None:
        self._scorer = Scorer(checkpoint)

    def score(
        self,
        *unnamed: object,
        references: Sequence[str] = (),
        candidates: Sequence[str] = (),
        batch_size: int | None = None,
    ) -> list[float]:
        """A score for each candidate; as in the original, an AssertionError if the lists are not named or differ."""
        assert not unnamed, "name the arguments: score(references=..., candidates=...)"
        wanted, given = list(references), list(candidates)
        assert len(wanted) == len(given), f"{len(wanted)} references, but {len(given)} candidates"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the original cuts long pairs without a word
            return self._scorer.score(wanted, given, batch_size or None)

    def close(self) -> None:
        """Nothing is open."""


class LengthBatchingBleurtScorer(BleurtScorer):
    """The same: batches are always of similar length, whatever the checkpoint says about `dynamic_seq_length`."""


def __getattr__(name: str) -> Any:
    """A clear error for what needs TensorFlow."""
    if name in ("SavedModelBleurtScorer", "create_bleurt_ops", "create_bleurt_preprocessing_ops"):
        raise BleurtError(f"bleurt.score.{name} needs TensorFlow and the original BLEURT; this is bleurt-pipeline.")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if __name__ == "__main__":
    from bleurt.score_files import main

    sys.exit(main())
