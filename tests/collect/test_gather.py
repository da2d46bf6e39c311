"""All corpora in one table: splits, leaks, accounts."""

import dataclasses
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.collect.corpus import CollectParams, Corpus, DriftParams, Split
from pipeline.collect.drift import DRIFT
from pipeline.collect.gather import EMPTY, TOO_LONG, collect
from pipeline.collect.splits import LEAK, normalised
from pipeline.core.errors import InputError, ParamsError
from pipeline.core.records import RATINGS
from pipeline.core.shards import list_shards, read_rows

Write = Callable[[Path, str], Path]
Make = Callable[..., Corpus]


def params(*corpora: Corpus, validation: float = 0.0, rows: int = 1000, undo: bool = False) -> CollectParams:
    return CollectParams(
        corpora=corpora, without=(), language_pairs=None, validation_fraction=validation, max_words=512,
        undo_character_references=undo,
        rows_per_shard=rows, drift=DriftParams(train_alpha=0.0, test_alpha=0.0), seed=1,
    )  # fmt: skip


def own(write: Write, file: Path, *rows: tuple[str, str]) -> Path:
    """A file of (reference, source) rows."""
    lines = [f"{reference}\tcandidate {number}\t50\t{source}" for number, (reference, source) in enumerate(rows)]
    return write(file, "\n".join(["reference\tcandidate\tscore\tsource", *lines]) + "\n")


def shared(rows: list[dict[str, Any]], first: str, second: str) -> set[str]:
    texts = {
        split: {
            normalised(text)
            for row in rows
            if row["split"] == split
            for text in (row["reference"], *row["other_references"], row["source"] or "")
            if text
        }
        for split in (first, second)
    }
    return texts[first] & texts[second]


def test_training_rows_that_share_with_a_test_row_are_dropped_and_counted(
    tmp_path: Path, write: Write, corpus: Make
) -> None:
    train = own(write, tmp_path / "a.tsv", ("A cat.", "s1"), ("a  CAT.", "s2"), ("A dog.", "s3"), ("A hen.", "s4"))
    test = own(write, tmp_path / "b.tsv", ("A cat.", "s9"), ("An owl.", "S3"))
    made = params(corpus("own", train, name="mine"), corpus("own", test, name="theirs", split=Split.TEST))
    counts = collect(made, tmp_path / "out")
    rows = list(read_rows(tmp_path / "out", RATINGS))
    assert [(row["rating_id"], row["split"]) for row in rows] == [
        ("mine/5", "train"),
        ("theirs/2", "test"),
        ("theirs/3", "test"),
    ]
    expected = {
        "rows_in": 6,
        "rows_out": 3,
        "dropped": {LEAK: 3},
        "by_split": {"train": 1, "validation": 0, "test": 2},
        "by_corpus": {
            "mine": {
                "rows_in": 4,
                "rows_out": 1,
                "dropped": {LEAK: 3},
                "by_split": {"train": 1, "validation": 0, "test": 0},
            },
            "theirs": {
                "rows_in": 2,
                "rows_out": 2,
                "dropped": {},
                "by_split": {"train": 0, "validation": 0, "test": 2},
            },
        },
    }
    assert counts == expected
    assert json.loads((tmp_path / "out" / "counts.json").read_text(encoding="utf-8")) == expected


def test_by_reference_splits_one_corpus_in_three(tmp_path: Path, write: Write, corpus: Make) -> None:
    file = own(write, tmp_path / "a.tsv", *[(f"Reference {number // 4}.", "") for number in range(80)])
    made = params(corpus("own", file, split=Split.BY_REFERENCE, test_fraction=0.25), validation=0.2, rows=30)
    assert collect(made, tmp_path / "out")["by_split"] == {"train": 48, "validation": 12, "test": 20}
    rows = list(read_rows(tmp_path / "out", RATINGS))
    pairs = [("train", "validation"), ("train", "test"), ("validation", "test")]
    assert [shared(rows, *pair) for pair in pairs] == [set(), set(), set()]
    assert [row["rating_id"] for row in rows] == [f"c/{line}" for line in range(2, 82)]
    assert [shard.name for shard in list_shards(tmp_path / "out")] == [f"part-0000{n}.parquet" for n in range(3)]


def test_a_corpus_that_is_left_out_is_not_even_read(tmp_path: Path, write: Write, corpus: Make) -> None:
    kept = corpus("own", own(write, tmp_path / "a.tsv", ("A cat.", "s1")), name="kept")
    absent = corpus("own", tmp_path / "absent.tsv", name="absent")
    counts = collect(dataclasses.replace(params(kept, absent), without=("absent",)), tmp_path / "out")
    assert list(counts["by_corpus"]) == ["kept"]


def test_drift_leaves_the_worst_rows_for_training_and_the_best_for_the_test(
    tmp_path: Path, write: Write, corpus: Make
) -> None:
    files = {}
    for name, start in (("one", 0), ("two", 1), ("test", 50)):  # scores 0 2 .. 38; 1 3 .. 39; 50 52 .. 88
        rows = [f"{name} {number}\tc\t{start + 2 * number}" for number in range(20)]
        files[name] = write(tmp_path / f"{name}.tsv", "\n".join(["reference\tcandidate\tscore", *rows]) + "\n")
    corpora = [
        corpus("own", file, name=name, split=Split.TEST if name == "test" else Split.TRAIN)
        for name, file in files.items()
    ]
    skewed = dataclasses.replace(params(*corpora), drift=DriftParams(train_alpha=1000.0, test_alpha=1000.0))
    counts = collect(skewed, tmp_path / "out")
    assert [(row["corpus"], row["raw"]) for row in read_rows(tmp_path / "out", RATINGS)] == [
        ("one", 0.0),
        ("one", 2.0),
        ("two", 1.0),
        ("two", 3.0),
        ("test", 86.0),
        ("test", 88.0),
    ]
    assert counts["by_corpus"]["two"]["dropped"] == {DRIFT: 18}
    assert (counts["rows_in"], counts["rows_out"], counts["dropped"]) == (60, 6, {DRIFT: 54})


def test_too_little_to_split_is_said(tmp_path: Path, write: Write, corpus: Make) -> None:
    file = own(write, tmp_path / "a.tsv", *[("One.", "")] * 20)
    with pytest.raises(InputError, match=r"too few distinct references to set test_fraction apart: 0\.5\."):
        collect(params(corpus("own", file, split=Split.BY_REFERENCE, test_fraction=0.5)), tmp_path / "out")
    with pytest.raises(InputError, match=r"the 20 training rows have too few .* validation_fraction apart: 0\.1\."):
        collect(params(corpus("own", file), validation=0.1), tmp_path / "out")


def test_a_corpus_of_which_nothing_is_left_is_said(tmp_path: Path, write: Write, corpus: Make) -> None:
    file = own(write, tmp_path / "a.tsv", ("One.", ""))
    with pytest.raises(InputError, match=r"no rating of corpus c is left \(1 dropped: language pair not chosen\)"):
        collect(params(corpus("own", file, language_pairs=("de-en",))), tmp_path / "out")


def test_rows_with_long_texts_are_dropped_and_counted(tmp_path: Path, write: Write, corpus: Make) -> None:
    fits, long, longest = (" ".join(["word"] * count) for count in (512, 513, 10_000))
    rows = [(fits, [], fits), ("a", [], longest), (long, [], "b"), ("c", [long], "d")]
    lines = [
        json.dumps({"reference": reference, "references": others, "candidate": candidate, "score": 50})
        for reference, others, candidate in rows
    ]
    file = write(tmp_path / "a.jsonl", "\n".join(lines) + "\n")
    counts = collect(params(corpus("own", file)), tmp_path / "out")
    assert (counts["rows_in"], counts["rows_out"], counts["dropped"]) == (4, 1, {TOO_LONG: 3})
    (row,) = read_rows(tmp_path / "out", RATINGS)
    assert (row["rating_id"], row["candidate"]) == ("c/1", fits)


def test_words_of_scripts_without_blanks_are_pairs_of_characters(tmp_path: Path, write: Write, corpus: Make) -> None:
    fits, long = "雨" * 1024, "雨" * 1026
    lines = [json.dumps({"reference": text, "candidate": "雨", "score": 50}) for text in (fits, long)]
    counts = collect(params(corpus("own", write(tmp_path / "a.jsonl", "\n".join(lines) + "\n"))), tmp_path / "out")
    assert (counts["rows_out"], counts["dropped"]) == (1, {TOO_LONG: 1})


def test_character_references_become_characters_on_request(tmp_path: Path, write: Write, corpus: Make) -> None:
    row = {"reference": "&quot;R&amp;D&quot;", "references": ["A &lt; B"], "candidate": "R&apos;s", "source": "&#228;"}
    file = write(tmp_path / "a.jsonl", json.dumps({**row, "score": 50}) + "\n")
    for undo, expected in (
        (False, (row["reference"], ["A &lt; B"], "R&apos;s", "&#228;")),
        (True, ('"R&D"', ["A < B"], "R's", "ä")),
    ):
        collect(params(corpus("own", file), undo=undo), tmp_path / "out")
        (found,) = read_rows(tmp_path / "out", RATINGS)
        texts = tuple(found[name] for name in ("reference", "other_references", "candidate", "source"))
        assert texts == expected


def test_what_is_empty_without_its_references_is_dropped_and_addresses_stay(
    tmp_path: Path, write: Write, corpus: Make
) -> None:
    address = "https://x.org/?a=1&region=2&copy=3&notify=1"
    rows = [
        {"reference": "&nbsp;", "candidate": "a"},
        {"reference": address, "references": ["&#32;"], "candidate": "b"},
    ]
    file = write(tmp_path / "a.jsonl", "".join(json.dumps({**row, "score": 50}) + "\n" for row in rows))
    counts = collect(params(corpus("own", file), undo=True), tmp_path / "out")
    assert (counts["rows_in"], counts["dropped"]) == (2, {EMPTY: 1})
    (found,) = read_rows(tmp_path / "out", RATINGS)
    assert (found["reference"], found["other_references"]) == (address, [])


def test_training_ratings_of_two_kinds_are_refused(tmp_path: Path, write: Write, corpus: Make) -> None:
    scaled, plain = (own(write, tmp_path / f"{n}.tsv", (f"A {n}.", f"s{n}"), (f"B {n}.", f"t{n}")) for n in (1, 2))
    mine, theirs = corpus("own", scaled, name="mine"), corpus("own", plain, name="theirs", scale=None)
    with pytest.raises(ParamsError, match="ratings of adequacy are standardised in 'theirs' and on a scale in 'mine'"):
        collect(params(mine, theirs), tmp_path / "out")
    collect(params(mine, dataclasses.replace(theirs, split=Split.TEST)), tmp_path / "out")


def test_a_test_split_of_several_years_is_refused(tmp_path: Path, write: Write, corpus: Make) -> None:
    rows = "".join(f"de-en,s{year},m,r{year},0.5,50,{year}\n" for year in (2017, 2019, 2018))
    file = write(tmp_path / "a.csv", "lp,src,mt,ref,score,raw,year\n" + rows)
    with pytest.raises(ParamsError, match=r"^collect\.corpora, 'c': .* several years \(2017, 2018, 2019\); make each"):
        collect(params(corpus("hub", file, split=Split.TEST)), tmp_path / "out")
    collect(params(corpus("hub", file)), tmp_path / "train")
    collect(params(corpus("hub", file, split=Split.TEST, years=(2019,))), tmp_path / "test")
    assert [row["year"] for row in read_rows(tmp_path / "test", RATINGS)] == [2019]


def test_real_data_of_all_years(tmp_path: Path, real_data: Path, corpus: Make) -> None:
    wmt, to_english = real_data / "wmt", {"language_pairs": ("*-en",)}
    made = params(
        corpus("wmt_daseg", wmt / "DAseg-wmt-newstest2015", name="wmt15", **to_english),
        corpus("wmt_daseg", wmt / "DAseg-wmt-newstest2016", name="wmt16", **to_english),
        corpus("wmt17", wmt / "wmt17", name="wmt17", split=Split.TEST, **to_english),
        validation=0.1,
    )
    counts = collect(made, tmp_path / "out")
    assert {name: part["rows_out"] for name, part in counts["by_corpus"].items()} == {
        "wmt15": 2000,
        "wmt16": 2240,
        "wmt17": 3920,
    }
    assert counts["by_split"] == {"train": 3816, "validation": 424, "test": 3920}
    rows = list(read_rows(tmp_path / "out", RATINGS))
    pairs = [("train", "validation"), ("train", "test"), ("validation", "test")]
    assert [shared(rows, *pair) for pair in pairs] == [set(), set(), set()]
    assert max(Counter(row["rating_id"] for row in rows).values()) == 1


def test_a_corpus_keeps_the_splits_that_it_was_published_with(tmp_path: Path, write: Write, corpus: Make) -> None:
    header = "language_pair\tsplit\tsegment\tsource\ttranslation\tpost_edit_tokens\tmean\tz_mean\n"
    rows = [
        ("train", "a", "one"),
        ("train", "b", "two"),
        ("train", "c", "three"),
        ("dev", "d", "two"),
        ("test", "e", "one"),
    ]
    lines = [f"ro-en\t{split}\t{i}\t{source}\tcat\t{edit}\t50\t0.5\n" for i, (split, source, edit) in enumerate(rows)]
    file = write(tmp_path / "mlqe.tsv", header + "".join(lines))
    mine = own(write, tmp_path / "own.tsv", *((f"text {i}", str(i)) for i in range(10)))
    published = corpus("mlqe_pe", file, name="mlqe", split=Split.PUBLISHED)
    standardised = corpus("own", mine, name="mine", scale=None)
    counts = collect(params(published, standardised, validation=0.5), tmp_path / "out")
    assert counts["by_corpus"]["mlqe"]["by_split"] == {"train": 1, "validation": 1, "test": 1}
    assert counts["by_corpus"]["mlqe"]["dropped"] == {LEAK: 2}, "what a test row or a validation row shares"
    assert counts["by_corpus"]["mine"]["by_split"] == {"train": 5, "validation": 5, "test": 0}
