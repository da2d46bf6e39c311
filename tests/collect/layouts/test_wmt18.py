"""WMT 2018, on folders of our own in the published layout."""

import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.collect.corpus import Corpus
from pipeline.collect.layouts.wmt18 import load, output_name
from pipeline.core.errors import InputError

Write = Callable[[Path, str], Path]
Make = Callable[..., Corpus]
WriteTexts = Callable[[Path, int, str, dict[str, str]], None]

HEADER = "SYS SID RAW.SCR Z.SCR N\n"


@pytest.fixture
def parts18(tmp_path: Path, write: Write, write_texts: WriteTexts) -> tuple[Path, Path]:
    """Folders of ratings and of texts."""
    ratings, texts = tmp_path / "newstest2018-humaneval", tmp_path / "wmt18-metrics-task-nohybrids"
    write(
        ratings / "analysis" / "ad-seg-scores-fi-en.csv",
        HEADER + "UAlacant_-_NM 2 55.5 0.25 2\nHUMAN 1 99 1 1\nRBMT.6722 1 9 -1 1\nnmt.1 1 10 -1.5 1\nnmt.1 2 0 -2 1\n",
    )
    write(ratings / "analysis" / "ad-seg-scores-en-et.csv", HEADER + "nmt.1 1 10 -1.5 1\n")
    outputs = {"UAlacant_-_NMT+RBMT.6722": "u1\nu2\n", "nmt.1": "n1\n\n"}
    write_texts(texts, 2018, "fi-en", outputs)
    return ratings, texts


def test_2018_joins_ratings_and_texts_and_repairs_names(parts18: tuple[Path, Path], corpus: Make) -> None:
    loaded = load(corpus("wmt18", *parts18))
    assert [(r.key, r.system, r.segment, r.reference, r.candidate, r.source) for r in loaded.ratings] == [
        ("fi-en/2", "UAlacant_-_NMT+RBMT.6722", "2", "r2", "u2", "s2"),
        ("fi-en/5", "nmt.1", "1", "r1", "n1", "s1"),
        ("fi-en/6", "nmt.1", "2", "r2", "", "s2"),
    ]
    assert [(r.raw, r.z, r.score) for r in loaded.ratings] == [(55.5, 0.25, 0.25), (10, -1.5, -1.5), (0, -2, -2)]
    assert {rating.year for rating in loaded.ratings} == {2018}
    assert loaded.dropped == {"HUMAN or RBMT.6722, which WMT leaves out": 2, "no texts of the language pair": 1}
    to_english = load(corpus("wmt18", *parts18, language_pairs=("*-en",)))
    assert to_english.ratings == loaded.ratings
    assert to_english.dropped["language pair not chosen"] == 1


def test_2018_from_a_folder_of_the_published_archives(parts18: tuple[Path, Path], tmp_path: Path, corpus: Make) -> None:
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    for folder, name in zip(
        parts18, ("newstest2018-humaneval.tar.gz", "wmt18-metrics-task-nohybrids.tgz"), strict=True
    ):
        with tarfile.open(downloads / name, "w:gz") as tar:
            tar.add(folder, arcname=folder.name)
    assert load(corpus("wmt18", downloads)) == load(corpus("wmt18", *parts18))


def test_archives_beside_their_unpacked_folders_change_nothing(parts18: tuple[Path, Path], corpus: Make) -> None:
    ratings, texts = parts18
    expected = load(corpus("wmt18", ratings, texts))
    for folder, ending in ((ratings, ".tar.gz"), (texts, ".tgz")):
        with tarfile.open(folder.with_name(folder.name + ending), "w:gz") as tar:
            tar.add(folder, arcname=folder.name)
    assert load(corpus("wmt18", ratings.parent)) == expected


@pytest.mark.parametrize(
    ("rated", "expected"),
    [
        ("UAlacant_-_NM", "UAlacant_-_NMT+RBMT.6722"),
        ("a.1.zh-en", "a.1.zh-en"),
        ("uedin-nmt.1", "uedin-nmt.1"),
    ],
)
def test_names_are_repaired(rated: str, expected: str) -> None:
    assert output_name(rated, "zh-en") == expected


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("nmt.1 1 x 1 1\n", r"fi-en\.csv, line 2: RAW\.SCR is not a number: 'x'\."),
        ("nmt.1 1 1 inf 1\n", r"fi-en\.csv, line 2: Z\.SCR is not finite: 'inf'\."),
        ("nmt.1 9 1 1 1\n", r"fi-en\.csv, line 2: SID lies outside the 2 lines of .*: '9'\."),
        ("who.1 1 1 1 1\n", r"fi-en\.csv, line 2: no output of this system lies in .*fi-en: 'who\.1'\."),
        ("nmt.1 1 1\n", r"fi-en\.csv, line 2: has 3 fields, but the header 5\."),
    ],
)
def test_malformed_ratings_are_refused(
    parts18: tuple[Path, Path], write: Write, corpus: Make, row: str, message: str
) -> None:
    write(parts18[0] / "analysis" / "ad-seg-scores-fi-en.csv", HEADER + row)
    with pytest.raises(InputError, match=message):
        load(corpus("wmt18", *parts18))


def test_a_missing_half_says_what_to_put_where(parts18: tuple[Path, Path], corpus: Make) -> None:
    with pytest.raises(InputError, match=r"nohybrids: holds no ad-seg-scores.*put newstest2018-humaneval\.tar\.gz and"):
        load(corpus("wmt18", parts18[1]))
    with pytest.raises(InputError, match=r"holds ratings, but no system outputs.*wmt18-metrics-task-nohybrids\.tgz"):
        load(corpus("wmt18", parts18[0]))


def test_ratings_that_stand_twice_are_refused(parts18: tuple[Path, Path], write: Write, corpus: Make) -> None:
    write(parts18[0] / "other" / "ad-seg-scores-fi-en.csv", HEADER + "nmt.1 1 1 1 1\n")
    with pytest.raises(InputError, match=r"ad-seg-scores-fi-en\.csv: occurs twice, also as "):
        load(corpus("wmt18", *parts18))
