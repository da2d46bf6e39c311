"""Which rows of all corpora are for training, for validation, for the test, or for nothing (paper, B.2).

What is tested on is not trained on. Rows that share a reference (any of several) or a source belong together, directly
or through others; such a component goes to one split as a whole. Only a corpus that is split by system (section 5.3) is
divided in another way: its test systems' texts are kept out of training, while its inputs stand on both sides.

Texts are compared after `normalised`. Components and systems are taken in the order of a seeded hash of their text, so
the outcome does not depend on the order of rows, and adding a corpus moves few rows of others.
"""

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy
import scipy.sparse
import scipy.sparse.csgraph

from pipeline.collect.corpus import TEST, TRAIN, VALIDATION, CollectParams, Corpus, Loaded, Rating, Split
from pipeline.core.errors import InputError, ParamsError

LEAK = "row shares a reference or source with a test row"
SAME_TEXT = "training text is also that of a test row of the same input"


Keys = frozenset[str]
"""What a row must not share with a row of another split."""


@dataclass
class Entry:
    """A row and its split, which is "train" until the row is held out, and None once the row is dropped."""

    corpus: str
    rating: Rating
    keys: Keys
    split: str | None


def entries_of(corpus: Corpus, loaded: Loaded, seed: int) -> list[Entry]:
    """The rows of one corpus, each for training or for the test; `seed` draws the test rows of a divided corpus.

    A corpus with too few groups for its `test_fraction`, or with rows that name no system although it is split by
    system, is an InputError; test rows of several years are a ParamsError.
    """
    split = TEST if corpus.split is Split.TEST else TRAIN
    published = corpus.split is Split.PUBLISHED
    entries = [
        Entry(corpus.name, rating, keys_of(rating), rating.split if published else split) for rating in loaded.ratings
    ]
    if corpus.test_fraction is not None:
        for row in _held_out(corpus, corpus.test_fraction, entries, seed):
            entries[row].split = TEST
    _check_years(corpus, entries)
    return entries


def _held_out(corpus: Corpus, fraction: float, entries: list[Entry], seed: int) -> set[int]:
    """Numbers of the test rows of a divided corpus."""
    keys, scope = [entry.keys for entry in entries], f"test/{corpus.name}"
    if corpus.split is Split.BY_SYSTEM:
        what, held = "systems", hold_out_groups(_systems(corpus, entries), fraction, seed, scope)
    elif corpus.split is Split.BY_INPUT:
        what, held = "inputs", hold_out_groups(input_names(keys), fraction, seed, scope)
    else:
        what, held = "distinct references", hold_out(keys, fraction, seed, scope)
    if not held:
        raise InputError(
            f"corpus {corpus.name} has too few {what} to set test_fraction apart",
            file=corpus.parts[0].path,
            value=fraction,
        )
    return held


def _systems(corpus: Corpus, entries: list[Entry]) -> list[str]:
    names = [entry.rating.system or "" for entry in entries]
    if "" in names:
        key = entries[names.index("")].rating.key
        raise InputError("split by_system needs a system in every row", file=corpus.parts[0].path, value=key)
    return names


def _check_years(corpus: Corpus, entries: list[Entry]) -> None:
    """A ParamsError if test rows come from several years: each year is a benchmark with a rule of its own for DARR."""
    years = sorted({str(entry.rating.year) for entry in entries if entry.split == TEST})
    if len(years) > 1:
        raise ParamsError(
            f"collect.corpora, {corpus.name!r}: its test rows come from several years ({', '.join(years)}); make each "
            "year a corpus of its own."
        )


def drop_leaks(entries: list[Entry], params: CollectParams, dropped: dict[str, Counter[str]]) -> None:
    """Drop training rows that share a reference or source with a test row; count them by corpus and reason.

    If a corpus names its own validation rows, those that share something with a test row are dropped as well, and so
    are training rows that share something with them.

    A row of a corpus that is split by system may share its input with that corpus's own test rows. It is dropped only
    if its candidate is also that of a test row of the same input.
    """
    by_system = {corpus.name for corpus in params.corpora if corpus.split is Split.BY_SYSTEM}
    tested: dict[str, set[str]] = {}
    for entry in entries:
        if entry.split == TEST:
            for key in entry.keys:
                tested.setdefault(key, set()).add(entry.corpus)
    texts = {_text(entry) for entry in entries if entry.split == TEST and entry.corpus in by_system}
    for split in (VALIDATION, TRAIN):
        for entry in (entry for entry in entries if entry.split == split):
            allowed = {entry.corpus} & by_system
            leaks = any(tested[key] - allowed for key in entry.keys if key in tested)
            if leaks or (allowed and _text(entry) in texts):
                entry.split = None
                dropped[entry.corpus][LEAK if leaks else SAME_TEXT] += 1
        for entry in entries:
            if entry.split == split:
                for key in entry.keys:
                    tested.setdefault(key, set()).add(split)


def _text(entry: Entry) -> tuple[Keys, str]:
    return entry.keys, normalised(entry.rating.candidate)


def check_scales(entries: list[Entry]) -> None:
    """A ParamsError if training ratings of an aspect are standardised in one corpus and on a scale in another.

    One target would mix values from 0 to 1 with values around 0 whose deviation is 1.
    """
    corpora: dict[str, dict[bool, str]] = {}
    for entry in entries:
        if entry.split == TRAIN:
            corpora.setdefault(entry.rating.aspect, {}).setdefault(entry.rating.z is None, entry.corpus)
    for aspect, found in corpora.items():
        if len(found) > 1:
            raise ParamsError(
                f"collect.corpora: training ratings of {aspect} are standardised in {found[False]!r} and on a scale in "
                f"{found[True]!r}; standardise the latter (scale: null), or leave one out (collect.without)."
            )


def hold_out_validation(entries: list[Entry], params: CollectParams) -> None:
    """Take validation rows from the training rows; the two share no reference and no source.

    Corpora that name their own validation rows give no others. Too few training rows for `validation_fraction` are an
    InputError.
    """
    published = {corpus.name for corpus in params.corpora if corpus.split is Split.PUBLISHED}
    training = [entry for entry in entries if entry.split == TRAIN and entry.corpus not in published]
    if not training or not params.validation_fraction:
        return
    held = hold_out([entry.keys for entry in training], params.validation_fraction, params.seed, VALIDATION)
    if not held:
        raise InputError(
            f"the {len(training)} training rows have too few distinct references to set validation_fraction apart",
            file=", ".join(sorted({entry.corpus for entry in training})),
            value=params.validation_fraction,
        )
    for row in held:
        training[row].split = VALIDATION


def normalised(text: str) -> str:
    """One form for texts that differ only in case, width, composition or white space.

    >>> normalised("  The\\u00a0CAT ")
    'the cat'
    """
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def keys_of(rating: Rating) -> Keys:
    """The row's normalised references and source, without empty ones."""
    texts = (rating.reference, *rating.other_references, rating.source or "")
    return frozenset(text for text in map(normalised, texts) if text)


def components(rows: Sequence[Keys]) -> list[list[int]]:
    """Numbers of the rows of each component. A chain of shared keys leads from each of its rows to every other.

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
    """Numbers of about `fraction` of the rows: whole components, never more rows than the rounded share.

    Components are tried in the order of their hash, and one that no longer fits is passed over. `scope` names the
    draw, so that draws of one seed differ.
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

    The number of groups is rounded, whatever their sizes. A larger fraction holds out all that a smaller one does.
    """
    groups = _drawn(set(names), seed, scope)
    held = set(groups[: round(fraction * len(groups))])
    return {row for row, name in enumerate(names) if name in held}


def input_names(rows: Sequence[Keys]) -> list[str]:
    """The name of each row's component; it does not depend on the order of rows.

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
