"""A corpus split by system or by input, as the paper splits WebNLG (section 5.3)."""

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.collect.corpus import CollectParams, Corpus, Split
from pipeline.collect.gather import collect, load
from pipeline.collect.layouts.webnlg import ASPECTS
from pipeline.collect.splits import LEAK, SAME_TEXT, drop_leaks, entries_of, hold_out_groups, hold_out_validation
from pipeline.core.errors import InputError, ParamsError
from pipeline.core.modules import ROOT
from pipeline.core.params import from_mapping, load_params
from pipeline.core.records import RATINGS
from pipeline.core.shards import read_rows

Write = Callable[[Path, str], Path]
Make = Callable[..., Corpus]

SYSTEMS = [f"system{number}" for number in range(9)]
INPUTS = 12
HEADER = "id,mr,team,text,category,type,bleu,meteor,ter,fluency,grammar,semantics\n"

PAPER_SYSTEMS = {2: 0.78, 3: 0.67, 5: 0.44}
"""Systems of 9 that train (figure 3) -> the test_fraction that leaves so many."""

PAPER_INPUTS = {38: 0.83, 66: 0.704, 122: 0.453}
"""The same of inputs; the paper counts 224 of them, the published files hold 223."""


@pytest.fixture
def webnlg(tmp_path: Path, write: Write, corpus: Make) -> Callable[[Split, float], Corpus]:
    """9 systems that each say something of their own about each of 12 inputs."""
    folder = tmp_path / "webnlg"
    triples = [f"A{number} | is | b" for number in range(INPUTS)]
    rows = [
        f"{place * 9 + number},{triple},{system},{system} says {place},Food,seen,0,0,0,1,2,3\n"
        for place, triple in enumerate(triples)
        for number, system in enumerate(SYSTEMS)
    ]
    write(folder / "MRs.txt", "\n".join(triples))
    write(folder / "sample-ids.txt", "".join(f"{number}\n" for number in range(INPUTS)))
    write(folder / "gold-sample-reference0.lex", "".join(f"a{number} is b .\n" for number in range(INPUTS)))
    write(folder / "all_data_final_averaged.csv", HEADER + "".join(rows))
    return lambda split, fraction: corpus("webnlg", folder, split=split, test_fraction=fraction)


def params(*corpora: Corpus, validation: float = 0.0) -> CollectParams:
    whole = load_params(ROOT / "params.yaml", "collect", CollectParams)
    return replace(whole, corpora=corpora, validation_fraction=validation, seed=1)


def divided(corpus: Corpus, what: str, validation: float = 0.0) -> dict[str | None, set[str]]:
    """Split -> the systems or segments of its rows."""
    loaded = load(corpus)
    made = params(corpus, validation=validation)
    entries = entries_of(corpus, loaded, made.seed)
    drop_leaks(entries, made, {corpus.name: loaded.dropped})
    hold_out_validation(entries, made)
    found: dict[str | None, set[str]] = {}
    for entry in entries:
        found.setdefault(entry.split, set()).add(getattr(entry.rating, what))
    return found


@pytest.mark.parametrize(("train", "fraction"), PAPER_SYSTEMS.items())
def test_by_system_tests_on_whole_systems(
    webnlg: Callable[[Split, float], Corpus], tmp_path: Path, train: int, fraction: float
) -> None:
    counts = collect(params(webnlg(Split.BY_SYSTEM, fraction)), tmp_path / "out")
    rows = list(read_rows(tmp_path / "out", RATINGS))
    systems = {split: {row["system"] for row in rows if row["split"] == split} for split in ("train", "test")}
    assert (len(systems["train"]), len(systems["test"])) == (train, 9 - train)
    assert systems["train"] & systems["test"] == set()
    each = INPUTS * len(ASPECTS)
    assert counts["by_split"] == {"train": train * each, "validation": 0, "test": (9 - train) * each}
    assert counts["dropped"] == {}
    assert {row["segment"] for row in rows if row["split"] == "train"} == {str(number) for number in range(INPUTS)}


@pytest.mark.parametrize("test", [9, 6, 3, 1])
def test_by_input_tests_on_whole_inputs(webnlg: Callable[[Split, float], Corpus], tmp_path: Path, test: int) -> None:
    counts = collect(params(webnlg(Split.BY_INPUT, test / INPUTS)), tmp_path / "out")
    rows = list(read_rows(tmp_path / "out", RATINGS))
    segments = {split: {row["segment"] for row in rows if row["split"] == split} for split in ("train", "test")}
    assert (len(segments["train"]), len(segments["test"])) == (INPUTS - test, test)
    assert segments["train"] & segments["test"] == set()
    each = len(SYSTEMS) * len(ASPECTS)
    assert counts["by_split"] == {"train": (INPUTS - test) * each, "validation": 0, "test": test * each}
    assert {row["system"] for row in rows if row["split"] == "train"} == set(SYSTEMS)


@pytest.mark.parametrize("split", [Split.BY_SYSTEM, Split.BY_INPUT])
def test_a_fraction_of_1_tests_on_everything(
    webnlg: Callable[[Split, float], Corpus], tmp_path: Path, split: Split
) -> None:
    counts = collect(params(webnlg(split, 1.0), validation=0.1), tmp_path / "out")
    assert counts["by_split"] == {"train": 0, "validation": 0, "test": 9 * INPUTS * len(ASPECTS)}


def test_what_trains_at_one_size_trains_at_every_larger_one(webnlg: Callable[[Split, float], Corpus]) -> None:
    by_system = [divided(webnlg(Split.BY_SYSTEM, part), "system")["train"] for part in PAPER_SYSTEMS.values()]
    assert by_system[0] < by_system[1] < by_system[2]
    by_input = [divided(webnlg(Split.BY_INPUT, test / INPUTS), "segment")["train"] for test in (9, 6, 3)]
    assert by_input[0] < by_input[1] < by_input[2]


def test_validation_shares_no_input_with_training_even_by_system(webnlg: Callable[[Split, float], Corpus]) -> None:
    found = divided(webnlg(Split.BY_SYSTEM, 4 / 9), "segment", validation=0.25)
    assert len(found["validation"]) == INPUTS // 4
    assert found["train"] & found["validation"] == set()
    assert found["test"] == found["train"] | found["validation"]


def own(write: Write, file: Path, rows: list[tuple[str, str, str]]) -> Path:
    """A file of (reference, candidate, system) rows."""
    lines = ["reference\tcandidate\tscore\tsystem", *(f"{z}\t{c}\t50\t{system}" for z, c, system in rows)]
    return write(file, "\n".join(lines) + "\n")


def test_a_text_that_a_tested_system_gave_too_is_not_trained_on(tmp_path: Path, write: Write, corpus: Make) -> None:
    rows = [("one", "1", "a"), ("one", " 1", "b"), ("two", "2", "a"), ("two", "3", "b"), ("six", "2", "b")]
    file = own(write, tmp_path / "a.tsv", rows)
    counts = collect(params(corpus("own", file, split=Split.BY_SYSTEM, test_fraction=0.5)), tmp_path / "out")
    assert counts["dropped"] == {SAME_TEXT: 1}
    found = [(row["system"], row["split"], row["reference"]) for row in read_rows(tmp_path / "out", RATINGS)]
    tested = {system for system, split, _ in found if split == "test"}
    assert len(tested) == 1
    assert {reference for _, split, reference in found if split == "train"} >= {"two"}
    assert "one" not in {reference for _, split, reference in found if split == "train"}


def test_other_corpora_are_still_kept_apart(tmp_path: Path, write: Write, corpus: Make) -> None:
    mine = own(write, tmp_path / "a.tsv", [("one", "1", "a"), ("one", "2", "b"), ("two", "3", "a"), ("two", "4", "b")])
    theirs = own(write, tmp_path / "b.tsv", [("Two", "9", "c"), ("ten", "9", "c")])
    more = own(write, tmp_path / "c.tsv", [("ONE", "8", "d"), ("six", "8", "d")])
    split = corpus("own", mine, name="mine", split=Split.BY_SYSTEM, test_fraction=0.5)
    test = corpus("own", theirs, name="theirs", split=Split.TEST)
    train = corpus("own", more, name="more")
    counts = collect(params(split, test, train), tmp_path / "out")
    assert {name: part["dropped"] for name, part in counts["by_corpus"].items()} == {
        "mine": {LEAK: 1},  # "two", which theirs tests
        "theirs": {},
        "more": {LEAK: 1},  # "one", which mine tests
    }


@pytest.mark.parametrize(
    ("split", "fraction", "message"),
    [
        (Split.BY_SYSTEM, 0.2, r"webnlg: corpus c has too few systems to set test_fraction apart: 0\.01\."),
        (Split.BY_INPUT, 0.2, r"webnlg: corpus c has too few inputs to set test_fraction apart: 0\.01\."),
    ],
)
def test_too_few_to_divide_is_said(
    webnlg: Callable[[Split, float], Corpus], tmp_path: Path, split: Split, fraction: float, message: str
) -> None:
    collect(params(webnlg(split, fraction)), tmp_path / "out")
    with pytest.raises(InputError, match=message):
        collect(params(webnlg(split, 0.01)), tmp_path / "out")


def test_rows_without_a_system_cannot_be_split_by_it(tmp_path: Path, write: Write, corpus: Make) -> None:
    file = own(write, tmp_path / "a.tsv", [("one", "1", "a"), ("two", "2", "")])
    with pytest.raises(InputError, match=r"a\.tsv: split by_system needs a system in every row: '3'\."):
        collect(params(corpus("own", file, split=Split.BY_SYSTEM, test_fraction=0.5)), tmp_path / "out")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"test_fraction": None},
            r"corpus\.test_fraction: belongs to split by_reference, by_input, by_system, and only to these\.",
        ),
        ({"test_fraction": 0.0}, r"corpus\.test_fraction: must be above 0, not 0\.0"),
        (
            {"layout": "wmt17", "scale": None},
            r"corpus\.split: by_system is for layouts own, webnlg, which name a system in every row\.",
        ),
    ],
)
def test_bad_settings_are_refused(
    webnlg: Callable[[Split, float], Corpus], change: dict[str, Any], message: str
) -> None:
    good = asdict(webnlg(Split.BY_SYSTEM, 0.5))
    assert from_mapping(good, Corpus, "corpus") == webnlg(Split.BY_SYSTEM, 0.5)
    with pytest.raises(ParamsError, match=message):
        from_mapping({**good, **change}, Corpus, "corpus")


@given(
    st.lists(st.sampled_from("abcdefghi"), max_size=40),
    st.floats(0, 1),
    st.floats(0, 1),
    st.randoms(use_true_random=False),
)
def test_groups_are_drawn_whole_by_count_and_whatever_the_order(
    names: list[str], one: float, other: float, shuffle: Any
) -> None:
    less, more = sorted((one, other))
    held = hold_out_groups(names, less, 7, "test/c")
    inside = {names[row] for row in held}
    assert len(inside) == round(less * len(set(names)))
    assert held == {row for row, name in enumerate(names) if name in inside}
    assert held <= hold_out_groups(names, more, 7, "test/c")
    shuffled = list(names)
    shuffle.shuffle(shuffled)
    assert {shuffled[row] for row in hold_out_groups(shuffled, less, 7, "test/c")} == inside


def test_the_published_data_at_the_papers_sizes(real_data: Path, corpus: Make) -> None:
    whole = corpus("webnlg", real_data / "webnlg2017", split=Split.BY_SYSTEM, test_fraction=1.0)
    loaded = load(whole)
    assert len({rating.system for rating in loaded.ratings}) == 9
    for train, fraction in PAPER_SYSTEMS.items():
        entries = entries_of(replace(whole, test_fraction=fraction), loaded, 1)
        found = {entry.rating.system: entry.split for entry in entries}
        assert Counter(found.values()) == {"train": train, "test": 9 - train}
    for train, fraction in PAPER_INPUTS.items():
        entries = entries_of(replace(whole, split=Split.BY_INPUT, test_fraction=fraction), loaded, 1)
        found = {entry.rating.segment: entry.split for entry in entries}
        assert Counter(found.values()) == {"train": train, "test": 223 - train}
