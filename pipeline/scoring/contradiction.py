"""What a near-copy loses that contradicts its reference, by a classifier of entailment (beyond the paper).

A learned metric sees that most words are right: to it, a copy of the reference with a wrong name or number is better
than a paraphrase. A classifier of entailment sees the difference. Chen and Eger (MENLI, TACL 2023) add both up, but a
classifier that knows captions of images finds contradictions in a third of real translations, where people find none.
So it reads only near-copies, in both directions, and only what it is sure of counts: the loss grows evenly from 0, at a
probability of FREE, to WEIGHT. The three values were chosen on candidates of the stage `grade` and validation ratings
(docs/log.md).
"""

import threading
from collections.abc import Sequence

import numpy
from numpy.typing import NDArray

WEIGHT = 1.0
"""Standard deviations of people's ratings that a certain contradiction costs."""

FREE = 0.9
"""A probability of contradiction that costs nothing yet."""

NEAR = 0.8
"""A near-copy shares more than so much of its words with the reference (`shared_words`)."""

BATCH_TOKENS = 8192

_CLASSIFYING = threading.Lock()  # a fast tokenizer's settings are changed by every call


def shared_words(reference: str, candidate: str) -> float:
    """Dice coefficient of the distinct words between blanks, in lower case; 0 if both texts are empty.

    >>> round(shared_words("He bought 3 red apples there.", "He sold 3 red apples there."), 3)
    0.833
    """
    one, other = set(reference.lower().split()), set(candidate.lower().split())
    return 2 * len(one & other) / max(1, len(one) + len(other))


def contradictions(model: str, references: Sequence[str], candidates: Sequence[str]) -> NDArray[numpy.float64]:
    """Probability that candidate and reference contradict each other, (pairs,), by the classifier `model`.

    The clearer direction counts. NaN for equal texts and for what is no near-copy: the classifier does not read these.
    A ModelError if `model` is no classifier of entailment.
    """
    from pipeline.label.signals.entailment import LABELS, Params, entailment

    found = numpy.full(len(references), numpy.nan)
    pairs = enumerate(zip(references, candidates, strict=True))
    read = [place for place, (one, other) in pairs if one != other and shared_words(one, other) > NEAR]
    if read:
        left, right = ([texts[place] for place in read] for texts in (references, candidates))
        params, column = Params(model=model, batch_tokens=BATCH_TOKENS), LABELS.index("contradiction")
        with _CLASSIFYING:
            both = [entailment(*sides, params)[:, column] for sides in ((left, right), (right, left))]
        found[read] = numpy.maximum(*both)
    return found


def losses(contradiction: NDArray[numpy.float64]) -> NDArray[numpy.float64]:
    """What scores lose by these probabilities of contradiction, (pairs,), from 0 to WEIGHT; 0 for NaN.

    >>> losses(numpy.array([0.2, 0.9, 0.95, 1.0, numpy.nan])).round(3).tolist()
    [0.0, 0.0, 0.5, 1.0, 0.0]
    """
    found: NDArray[numpy.float64] = WEIGHT * numpy.maximum(numpy.nan_to_num(contradiction) - FREE, 0.0) / (1.0 - FREE)
    return found
