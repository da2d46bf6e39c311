"""Train, validation and test rows that share no reference or source (paper, B.2).

Rows that share a reference (any of several) or a source hang together, directly or through others; such a component
goes to one split as a whole. Only a split by system parts a corpus otherwise: by who wrote the candidates (section
5.3). Strings are compared after `normalised`. Components and systems are taken in the order of a seeded hash of their
text, so that the outcome does not depend on the order of rows, and adding a corpus moves few others.
"""

import hashlib
import unicodedata
from collections.abc import Iterable, Sequence

import numpy
import scipy.sparse
import scipy.sparse.csgraph

from pipeline.collect.rating import Rating

Keys = frozenset[str]
"""What a row must not share with a row of another split."""


def normalised(text: str) -> str:
    """One form for strings that differ in case, width, composition or white space alone.

    >>> normalised("  The\\u00a0CAT ")
    'the cat'
    """
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def keys_of(rating: Rating) -> Keys:
    """The row's normalised references and source; an empty string binds nothing."""
    texts = (rating.reference, *rating.other_references, rating.source or "")
    return frozenset(text for text in map(normalised, texts) if text)


def components(rows: Sequence[Keys]) -> list[list[int]]:
    """Row numbers by component; rows i and j are in one if a chain of shared keys leads from i to j.

    >>> components([frozenset("ab"), frozenset("c"), frozenset("bd"), frozenset("d")])
    [[0, 2, 3], [1]]
    """
    numbers: dict[str, int] = {}
    left = [row for row, keys in enumerate(rows) for _ in keys]
    right = [len(rows) + numbers.setdefault(key, len(numbers)) for keys in rows for key in sorted(keys)]
    size = len(rows) + len(numbers)
    graph = scipy.sparse.coo_matrix((numpy.ones(len(left), dtype=numpy.int8), (left, right)), shape=(size, size))
    _, labels = scipy.sparse.csgraph.connected_components(graph.tocsr(), directed=False)
    found: dict[int, list[int]] = {}
    for row in range(len(rows)):
        found.setdefault(int(labels[row]), []).append(row)
    return list(found.values())


def hold_out(rows: Sequence[Keys], fraction: float, seed: int, scope: str) -> set[int]:
    """Numbers of about `fraction` of the rows, whole components, never more than the rounded share.

    Components are tried in the order of their hash; one that no longer fits is passed over.
    """
    assert all(rows), "a reference is never empty"
    room = round(fraction * len(rows))
    groups: dict[str, list[int]] = {}
    for row, name in enumerate(input_names(rows)):
        groups.setdefault(name, []).append(row)
    held: set[int] = set()
    for name in _drawn(groups, seed, scope):
        if len(held) + len(groups[name]) <= room:
            held.update(groups[name])
    return held


def hold_out_groups(names: Sequence[str], fraction: float, seed: int, scope: str) -> set[int]:
    """Numbers of all rows of about `fraction` of the groups; `names[row]` names the row's group.

    The count of groups is rounded, whatever their sizes. A larger fraction holds out what a smaller one does, and more.
    """
    groups = _drawn(set(names), seed, scope)
    held = set(groups[: round(fraction * len(groups))])
    return {row for row, name in enumerate(names) if name in held}


def input_names(rows: Sequence[Keys]) -> list[str]:
    """A name for each row's component, the same whatever the order of rows.

    >>> input_names([frozenset("ab"), frozenset("c"), frozenset("bd"), frozenset("d")])
    ['a', 'c', 'a', 'a']
    """
    names = [""] * len(rows)
    for group in components(rows):
        name = min(min(rows[row]) for row in group)
        for row in group:
            names[row] = name
    return names


def _drawn(names: Iterable[str], seed: int, scope: str) -> list[str]:
    """`names` in the order of their hash."""
    return sorted(names, key=lambda name: hashlib.sha256(f"{seed}\x1f{scope}\x1f{name}".encode()).digest())
