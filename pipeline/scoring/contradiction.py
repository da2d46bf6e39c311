"""What a candidate loses that contradicts its reference, by a classifier of entailment (beyond the paper).

A learned metric sees that most words are right: to it, a copy of the reference with a wrong name or number is better
than a paraphrase. A classifier of entailment sees the difference, but orders translations badly. Chen and Eger (MENLI,
TACL 2023) add both up; here only a clear contradiction counts, so that most scores stay as they are. The classifier
reads the pair in both directions, and the clearer one counts. Up to FREE its probability costs nothing; from there on
the loss grows evenly, to WEIGHT for a certain contradiction.
"""

import threading
from collections.abc import Sequence

import numpy
from numpy.typing import NDArray

WEIGHT = 2.0
"""Standard deviations of people's ratings that a certain contradiction costs."""

FREE = 0.5
"""A probability of contradiction that costs nothing yet."""

BATCH_TOKENS = 8192

_CLASSIFYING = threading.Lock()  # a fast tokenizer's settings are changed by every call


def contradictions(model: str, references: Sequence[str], candidates: Sequence[str]) -> NDArray[numpy.float64]:
    """Probability that reference and candidate contradict each other, (pairs,), by the classifier `model`.

    0 for equal texts and where a side is empty. A ModelError if `model` is no classifier of entailment.
    """
    from pipeline.label.signals.entailment import LABELS, Params, entailment

    found = numpy.zeros(len(references))
    pairs = enumerate(zip(references, candidates, strict=True))
    asked = [place for place, (reference, candidate) in pairs if reference and candidate and reference != candidate]
    if asked:
        left, right = ([texts[place] for place in asked] for texts in (references, candidates))
        params, column = Params(model=model, batch_tokens=BATCH_TOKENS), LABELS.index("contradiction")
        with _CLASSIFYING:
            both = [entailment(*sides, params)[:, column] for sides in ((left, right), (right, left))]
        found[asked] = numpy.maximum(*both)
    return found


def losses(contradiction: NDArray[numpy.float64]) -> NDArray[numpy.float64]:
    """What scores lose by these probabilities of contradiction, (pairs,), from 0 to WEIGHT.

    >>> losses(numpy.array([0.2, 0.5, 0.75, 1.0])).tolist()
    [0.0, 0.0, 1.0, 2.0]
    """
    found: NDArray[numpy.float64] = WEIGHT * numpy.maximum(contradiction - FREE, 0.0) / (1.0 - FREE)
    return found
