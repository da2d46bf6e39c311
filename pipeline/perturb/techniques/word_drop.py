"""Word dropping (section 4.1, A.1): copies of pairs whose candidate loses words drawn at random.

The number of words to drop is uniform from 1 up to the number of words, which words is uniform too. Dropping all
words is legal and gives an empty candidate, a void prediction. Words are what spaces separate, characters where a
script has no spaces; those that stay are joined as they were. The paper says "about 30%" of the pairs: here it is the
share to the nearest whole pair.
"""

from dataclasses import dataclass

import numpy

from pipeline.core.scripts import words
from pipeline.perturb.attempts import hold_within


@dataclass(frozen=True)
class WordDropParams:
    """How many pairs get a copy with words dropped."""

    share: float
    """Fraction of the pairs made by the other techniques, 0 to 1; the paper's is 0.3."""

    def __post_init__(self) -> None:
        hold_within("perturb.word_drop.share", self.share, 0, 1)


@dataclass(frozen=True)
class Shortened:
    """A text that has lost `dropped` of its words, 1 or more."""

    text: str
    dropped: int


def drop_words(text: str, rng: numpy.random.Generator) -> Shortened:
    """Drop between 1 and all of the words of `text`, which must have one.

    >>> drop_words("one", numpy.random.default_rng(0))
    Shortened(text='', dropped=1)
    """
    all_words, between = words(text)
    assert all_words, "a text without words"
    count = int(rng.integers(1, len(all_words) + 1))
    gone = set(rng.choice(len(all_words), size=count, replace=False).tolist())
    return Shortened(between.join(word for i, word in enumerate(all_words) if i not in gone), count)
