"""Which English pieces stand for a foreign piece: IBM model 1 (Brown et al. 1993) on pieces of parallel text.

Expectation maximisation over all links of a foreign with an English piece of the same pair. Beside the English pieces
stands an empty one, which takes what has no counterpart. Word order plays no part.
"""

from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

Ids = NDArray[numpy.int64]


@dataclass(frozen=True)
class Rows:
    """Rows of ids one after the other: row i is `flat[starts[i] : starts[i + 1]]`."""

    flat: NDArray[numpy.int32]
    starts: Ids

    @classmethod
    def of(cls, rows: list[list[int]]) -> "Rows":
        """The rows of a list, as 32-bit numbers."""
        starts = numpy.concatenate([[0], numpy.cumsum([len(row) for row in rows])]).astype(numpy.int64)
        return cls(numpy.fromiter((i for row in rows for i in row), numpy.int32, int(starts[-1])), starts)

    def __getitem__(self, row: int) -> list[int]:
        ids: list[int] = self.flat[self.starts[row] : self.starts[row + 1]].tolist()
        return ids

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> Ids:
        """Ids of each row."""
        found: Ids = numpy.diff(self.starts)
        return found


@dataclass(frozen=True)
class Links:
    """How often each foreign piece is expected to stand for an English one: three columns, a pair of pieces once."""

    foreign: Ids
    english: Ids
    count: NDArray[numpy.float64]


def aligned_pieces(foreign: Rows, english: Rows, chosen: list[int], rounds: int, empty: int) -> Links:
    """Expected counts of links in the rows `chosen` after `rounds` of expectation maximisation; none is with `empty`.

    `empty` is an id that no English row holds. Of [1, 2] = [5, 6] and [1] = [5], piece 1 stands for 5, and 2 for 6.
    """
    left, right, of_token = _links(foreign, english, chosen, empty)
    width = int(right.max()) + 1
    pairs, place = numpy.unique(left * width + right, return_inverse=True)
    pair_english = pairs % width
    given = numpy.ones(len(pairs))  # P(foreign piece | English piece), up to a factor for each foreign token
    for _ in range(rounds):
        weights = given[place]
        weights /= numpy.bincount(of_token, weights)[of_token]
        counts = numpy.bincount(place, weights, len(pairs))
        given = counts / numpy.bincount(pair_english, counts)[pair_english]
    kept = pair_english != empty
    return Links(pairs[kept] // width, pair_english[kept], counts[kept])


def _links(foreign: Rows, english: Rows, chosen: list[int], empty: int) -> tuple[Ids, Ids, Ids]:
    """Foreign piece, English piece and number of the foreign token, for all links inside the rows `chosen`."""
    left, right, tokens, first = [], [], [], 0
    for row in chosen:
        ours = foreign.flat[foreign.starts[row] : foreign.starts[row + 1]]
        theirs = numpy.append(english.flat[english.starts[row] : english.starts[row + 1]], empty)
        left.append(numpy.repeat(ours, len(theirs)))
        right.append(numpy.tile(theirs, len(ours)))
        tokens.append(numpy.repeat(numpy.arange(first, first + len(ours)), len(theirs)))
        first += len(ours)
    joined = [numpy.concatenate(parts).astype(numpy.int64) for parts in (left, right, tokens)]
    return joined[0], joined[1], joined[2]
