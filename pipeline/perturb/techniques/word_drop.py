"""Word dropping (section 4.1, A.1): copies of pairs whose candidate loses words drawn at random.

It works on the pairs that the techniques before it made, so it comes after them in params.yaml. A copy keeps everything
else of its parent, even the technique.

The number of words to drop is uniform from 1 to the number of words; which words is uniform too. Dropping all words is
allowed and gives an empty candidate, a void prediction. Spaces separate words; in a script without spaces every
character is a word. The words that stay are joined as they were. The paper says "about 30%" of the pairs; here it is
the share to the nearest whole pair.
"""

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import numpy

from pipeline.core.params import Share, params
from pipeline.core.records import Reason
from pipeline.core.scripts import words
from pipeline.perturb.pairs import Attempt, Made, Shard, chosen


@params
class Params:
    """How many pairs get a copy with words dropped."""

    share: Share
    """Share of the pairs that the other techniques made; the paper's is 0.3."""


def needs(params: Params) -> tuple[Path, ...]:
    """Nothing."""
    return ()


def make(shard: Shard, params: Params) -> Made:
    """A copy of `share` of the pairs made so far. A parent whose candidate has no word gives none."""
    parents = [shard.pairs[i] for i in chosen(len(shard.pairs), params.share, shard.rng)]
    return Made([_copy(parent, shard.rng) for parent in parents])


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


def _copy(parent: Attempt, rng: numpy.random.Generator) -> Attempt:
    copy = dataclasses.replace(parent, tag=f"{parent.tag}/drop", parent_id=parent.pair_id)
    if not parent.candidate.strip():
        return dataclasses.replace(copy, reason=Reason.EMPTY_TEXT)
    short = drop_words(parent.candidate, rng)
    return dataclasses.replace(copy, candidate=short.text, dropped_words=short.dropped)
