"""Which rows of all corpora are for training, for validation, for the test, or for nothing.

What is tested on is not trained on: by references and sources (paper, B.2), or, where a corpus is split by system
(section 5.3), by the texts of its systems. The draws themselves are in `pipeline.collect.splits`.
"""

from collections import Counter
from dataclasses import dataclass

from pipeline.collect.corpus import CollectParams, Corpus, Split
from pipeline.collect.drift import Side, kept
from pipeline.collect.rating import Loaded, Rating
from pipeline.collect.splits import Keys, hold_out, hold_out_groups, input_names, keys_of, normalised
from pipeline.core.errors import InputError, ParamsError

LEAK = "training row shares a reference or source with a test row"
SAME_TEXT = "training text is also that of a test row of the same input"
DRIFT = "left out by drift"
TRAIN, VALIDATION, TEST = "train", "validation", "test"


@dataclass
class Entry:
    """A row on its way: `split` is "train" until the row is held out, None once it is dropped."""

    corpus: str
    rating: Rating
    keys: Keys
    split: str | None


def entries_of(corpus: Corpus, loaded: Loaded, seed: int) -> list[Entry]:
    """The rows of one corpus, each for training or for the test."""
    split = TEST if corpus.split is Split.TEST else TRAIN
    entries = [Entry(corpus.name, rating, keys_of(rating), split) for rating in loaded.ratings]
    if corpus.test_fraction is not None:
        for row in _held_out(corpus, corpus.test_fraction, entries, seed):
            entries[row].split = TEST
    _check_years(corpus, entries)
    return entries


def _held_out(corpus: Corpus, fraction: float, entries: list[Entry], seed: int) -> set[int]:
    """Numbers of the test rows of a corpus that is divided."""
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
    """Each year is a benchmark of its own, with its own rule for DARR."""
    years = sorted({str(entry.rating.year) for entry in entries if entry.split == TEST})
    if len(years) > 1:
        raise ParamsError(
            f"collect.corpora, {corpus.name!r}: its test rows come from several years ({', '.join(years)}); make each "
            "year a corpus of its own."
        )


def drop_leaks(entries: list[Entry], params: CollectParams, dropped: dict[str, Counter[str]]) -> None:
    """Drop training rows that share something with a test row, and count them by corpus and reason.

    Rows of a corpus that is split by system may share inputs with its own test rows, but not the text given for one.
    """
    by_system = {corpus.name for corpus in params.corpora if corpus.split is Split.BY_SYSTEM}
    tested: dict[str, set[str]] = {}
    for entry in entries:
        if entry.split == TEST:
            for key in entry.keys:
                tested.setdefault(key, set()).add(entry.corpus)
    texts = {_text(entry) for entry in entries if entry.split == TEST and entry.corpus in by_system}
    for entry in entries:
        if entry.split != TRAIN:
            continue
        allowed = {entry.corpus} & by_system
        if any(tested[key] - allowed for key in entry.keys if key in tested):
            entry.split = None
            dropped[entry.corpus][LEAK] += 1
        elif allowed and _text(entry) in texts:
            entry.split = None
            dropped[entry.corpus][SAME_TEXT] += 1


def _text(entry: Entry) -> tuple[Keys, str]:
    return entry.keys, normalised(entry.rating.candidate)


def check_scales(entries: list[Entry]) -> None:
    """A ParamsError where training ratings of one aspect are standardised in one corpus and on a scale in another.

    They would be one target: from 0 to 1 here, around 0 with a deviation of 1 there.
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


def skew(entries: list[Entry], params: CollectParams, dropped: dict[str, Counter[str]]) -> None:
    """Drop what the drift leaves out of the training rows and of the test rows, and count it.

    The rows of all corpora are cut into bins together, by `score`, each aspect for itself.
    """
    for side, alpha in ((Side.TRAIN, params.drift.train_alpha), (Side.TEST, params.drift.test_alpha)):
        for aspect in sorted({entry.rating.aspect for entry in entries}):
            rows = [entry for entry in entries if entry.split == side.value and entry.rating.aspect == aspect]
            stay = set(kept([entry.rating.score for entry in rows], alpha, params.seed, side).tolist())
            for row, entry in enumerate(rows):
                if row not in stay:
                    entry.split = None
                    dropped[entry.corpus][DRIFT] += 1


def hold_out_validation(entries: list[Entry], params: CollectParams) -> None:
    """Take validation rows from the training rows; the two share no reference and no source."""
    training = [entry for entry in entries if entry.split == TRAIN]
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
