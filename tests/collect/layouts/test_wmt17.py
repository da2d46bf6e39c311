"""WMT 2017, flat and as published."""

import tarfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.collect.corpus import Corpus
from pipeline.collect.layouts.wmt17 import load
from pipeline.core.errors import InputError

Write = Callable[[Path, str], Path]
Make = Callable[..., Corpus]

RATINGS = """LP DATA SYSTEM SID HUMAN
de-en newstest2017 x.1 2 -0.5
de-en newstest2017 y.2+x.1 1 1.5
de-en newstest2017 x.1+gone.3 2 0.25
de-en newstest2017 x.1+y.2 2 0.75
en-de newstest2017 x.1 1 0.1
fi-en newstest2017 x.1 1 0.1
de-en himl2017 x.1 1 0.1
"""
TEXTS = {
    "references/newstest2017-deen-ref.en": "A cat.\nA dog.\n",
    "{sources}/newstest2017-deen-src.de": "Eine Katze.\nEin Hund.\n",
    "{outputs}/de-en/newstest2017.x.1.de-en": "The cat.\n\n",
    "{outputs}/de-en/newstest2017.y.2.de-en": "The cat.\nDogs.\n",
}


@pytest.fixture
def flat(tmp_path: Path, write: Write) -> Path:
    for name, text in TEXTS.items():
        write(tmp_path / "flat" / name.format(sources="source", outputs="system-outputs"), text)
    write(tmp_path / "flat" / "DA-seglevel.csv", RATINGS)
    return tmp_path / "flat"


def package(tmp_path: Path, write: Write) -> Path:
    """The official package: ratings, and an inner archive of texts."""
    texts = tmp_path / "inner" / "wmt17-submitted-data" / "txt"
    for name, text in TEXTS.items():
        write(texts / name.format(sources="sources", outputs="system-outputs/newstest2017"), text)
    whole = tmp_path / "package"
    write(whole / "manual-evaluation" / "DA-seglevel.csv", RATINGS)
    (whole / "input").mkdir()
    with tarfile.open(whole / "input" / "wmt17-metrics-task-no-hybrids.tgz", "w:gz") as tar:
        tar.add(tmp_path / "inner", arcname="wmt17-metrics-task-no-hybrids")
    with tarfile.open(tmp_path / "wmt17-metrics-task-package.tgz", "w:gz") as tar:
        tar.add(whole, arcname=".")
    return tmp_path / "wmt17-metrics-task-package.tgz"


def test_rows_join_ratings_and_texts(flat: Path, corpus: Make) -> None:
    loaded = load(corpus("wmt17", flat, language_pairs=("*-en",)))
    assert [(r.key, r.system, r.segment, r.reference, r.candidate, r.source, r.z) for r in loaded.ratings] == [
        ("de-en/2", "x.1", "2", "A dog.", "", "Ein Hund.", -0.5),
        ("de-en/3", "y.2+x.1", "1", "A cat.", "The cat.", "Eine Katze.", 1.5),
        ("de-en/4", "x.1+gone.3", "2", "A dog.", "", "Ein Hund.", 0.25),
    ]
    assert {rating.year for rating in loaded.ratings} == {2017}
    assert loaded.dropped == {
        "rated as one output of several systems, which differ": 1,
        "language pair not chosen": 1,
        "no texts of the language pair": 1,
        "another test set than newstest2017": 1,
    }


def test_the_official_package_gives_the_same_rows(flat: Path, tmp_path: Path, write: Write, corpus: Make) -> None:
    packed = package(tmp_path, write)
    expected = load(corpus("wmt17", flat))
    assert len(expected.ratings) == 3
    assert load(corpus("wmt17", packed)) == expected
    assert load(corpus("wmt17", tmp_path / "package")) == expected


def test_a_segment_without_a_reference_is_dropped(flat: Path, write: Write, corpus: Make) -> None:
    write(flat / "references" / "newstest2017-deen-ref.en", "A cat.\nNO REFERENCE AVAILABLE\n")
    loaded = load(corpus("wmt17", flat))
    assert (len(loaded.ratings), loaded.dropped["no reference"]) == (1, 3)


def test_scores_of_systems_come_along_where_they_are(flat: Path, write: Write, corpus: Make) -> None:
    assert {rating.system_ratings for rating in load(corpus("wmt17", flat)).ratings} == {()}
    write(flat / "DA-syslevel.csv", "LP HUMAN SYSTEM\nde-en 0.5 x.1\nde-en -0.25 y.2\nfi-en 9 gone.3\n")
    ratings = load(corpus("wmt17", flat)).ratings
    assert [rating.system_ratings for rating in ratings] == [
        (("x.1", 0.5),),
        (("y.2", -0.25), ("x.1", 0.5)),
        (("x.1", 0.5),),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("LP HUMAN\nde-en 0.5\n", r"DA-syslevel\.csv, line 1: the column is missing: 'SYSTEM'\."),
        ("LP HUMAN SYSTEM\nde-en high x.1\n", r"DA-syslevel\.csv, line 2: HUMAN is not a number: 'high'\."),
        ("LP HUMAN SYSTEM\nde-en 1 x.1\nde-en 2 x.1\n", r"line 3: names a system twice: 'de-en x\.1'\."),
    ],
)
def test_malformed_scores_of_systems_are_refused(
    flat: Path, write: Write, corpus: Make, text: str, message: str
) -> None:
    write(flat / "DA-syslevel.csv", text)
    with pytest.raises(InputError, match=message):
        load(corpus("wmt17", flat))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("DA-seglevel.csv", "LP DATA SYSTEM SID\n", r"DA-seglevel\.csv, line 1: the column is missing: 'HUMAN'\."),
        ("DA-seglevel.csv", RATINGS + "de-en x\n", r"DA-seglevel\.csv, line 9: has 2 fields, but the header 5\."),
        ("DA-seglevel.csv", RATINGS.replace("-0.5", "NaN"), r"DA-seglevel\.csv, line 2: HUMAN is not finite: 'NaN'\."),
        ("DA-seglevel.csv", RATINGS.replace("x.1 2", "x.1 3"), r"line 2: SID lies outside the 2 lines of .*: '3'\."),
        ("DA-seglevel.csv", RATINGS.replace("x.1 2", "x.1 0"), r"line 2: SID lies outside the 2 lines of .*: '0'\."),
        ("DA-seglevel.csv", RATINGS.replace("x.1 2", "x.1 b"), r"line 2: SID is not a whole number: 'b'\."),
        (
            "DA-seglevel.csv",
            RATINGS.replace("x.1 2", "z.9 2"),
            r"line 2: no output of this system lies .*: 'z\.9'\.",
        ),
        ("references/newstest2017-deen-ref.en", "A cat.\n\n", r"deen-ref\.en, line 2: the reference is empty\."),
        ("source/newstest2017-deen-src.de", "E\n", r"src\.de: has 1 lines, but .*deen-ref\.en has 2\."),
        ("system-outputs/de-en/newstest2017.x.1.de-en", "E\n", r"x\.1\.de-en: has 1 lines, but .*ref\.en has 2\."),
    ],
)
def test_malformed_files_are_refused(
    flat: Path, write: Write, corpus: Make, name: str, text: str, message: str
) -> None:
    write(flat / name, text)
    with pytest.raises(InputError, match=message):
        load(corpus("wmt17", flat))


def test_missing_files_say_what_to_put_where(flat: Path, tmp_path: Path, write: Write, corpus: Make) -> None:
    only = write(tmp_path / "only" / "DA-seglevel.csv", RATINGS).parent
    with pytest.raises(InputError, match=r"only: holds ratings, but no system outputs.*put wmt17-metrics-task-package"):
        load(corpus("wmt17", only))
    (flat / "references" / "newstest2017-deen-ref.en").unlink()
    with pytest.raises(InputError, match=r"de-en: no reference file newstest2017-deen-ref\.en goes with"):
        load(corpus("wmt17", flat))
    (flat / "DA-seglevel.csv").unlink()
    with pytest.raises(InputError, match=r"flat: holds no DA-seglevel\.csv; put wmt17-metrics-task-package\.tgz there"):
        load(corpus("wmt17", flat))


def test_the_published_data(real_data: Path, corpus: Make) -> None:
    loaded = load(corpus("wmt17", real_data / "wmt" / "wmt17", language_pairs=("*-en",)))
    pairs = ("cs-en", "de-en", "fi-en", "lv-en", "ru-en", "tr-en", "zh-en")
    assert Counter(rating.language_pair for rating in loaded.ratings) == dict.fromkeys(pairs, 560)
    assert loaded.dropped == {"language pair not chosen": 1120}
    assert sum("+" in (rating.system or "") for rating in loaded.ratings) == 127
    assert all(rating.source for rating in loaded.ratings)
    systems = {(rating.language_pair, *one) for rating in loaded.ratings for one in rating.system_ratings}
    assert len(systems) == 65 and ("cs-en", "online-B.0", 0.068) in systems
    assert all(len(rating.system_ratings) == len((rating.system or "").split("+")) for rating in loaded.ratings)
