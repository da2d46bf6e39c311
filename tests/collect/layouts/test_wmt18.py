"""WMT 2018 and 2019, on folders of our own in the published layout."""

import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.collect.corpus import Corpus, Layout
from pipeline.collect.layouts.wmt18 import load_wmt18, repaired
from pipeline.core.errors import InputError

Write = Callable[[Path, str], Path]
Make = Callable[..., Corpus]

HEADER = "SYS SID RAW.SCR Z.SCR N\n"


def write_texts(folder: Path, write: Write, year: int, pair: str, outputs: dict[str, str]) -> None:
    """Two segments of one pair, and each system's two lines."""
    source, target = pair.split("-")
    write(folder / "sources" / f"newstest{year}-{source}{target}-src.{source}", "s1\ns2\n")
    write(folder / "references" / f"newstest{year}-{source}{target}-ref.{target}", "r1\nr2\n")
    for system, text in outputs.items():
        write(folder / "system-outputs" / f"newstest{year}" / pair / f"newstest{year}.{system}.{pair}", text)


@pytest.fixture
def parts18(tmp_path: Path, write: Write) -> tuple[Path, Path]:
    """Folders of ratings and of texts."""
    ratings, texts = tmp_path / "newstest2018-humaneval", tmp_path / "wmt18-metrics-task-nohybrids"
    write(
        ratings / "analysis" / "ad-seg-scores-fi-en.csv",
        HEADER + "UAlacant_-_NM 2 55.5 0.25 2\nHUMAN 1 99 1 1\nRBMT.6722 1 9 -1 1\nnmt.1 1 10 -1.5 1\nnmt.1 2 0 -2 1\n",
    )
    write(ratings / "analysis" / "ad-seg-scores-en-et.csv", HEADER + "nmt.1 1 10 -1.5 1\n")
    outputs = {"UAlacant_-_NMT+RBMT.6722": "u1\nu2\n", "nmt.1": "n1\n\n"}
    write_texts(texts, write, 2018, "fi-en", outputs)
    return ratings, texts


def test_2018_joins_ratings_and_texts_and_repairs_names(parts18: tuple[Path, Path], corpus: Make) -> None:
    loaded = load_wmt18(corpus(Layout.WMT18, *parts18), 2018)
    assert [(r.key, r.system, r.segment, r.reference, r.candidate, r.source) for r in loaded.ratings] == [
        ("fi-en/2", "UAlacant_-_NMT+RBMT.6722", "2", "r2", "u2", "s2"),
        ("fi-en/5", "nmt.1", "1", "r1", "n1", "s1"),
        ("fi-en/6", "nmt.1", "2", "r2", "", "s2"),
    ]
    assert [(r.raw, r.z, r.score) for r in loaded.ratings] == [(55.5, 0.25, 0.25), (10, -1.5, -1.5), (0, -2, -2)]
    assert {rating.year for rating in loaded.ratings} == {2018}
    assert loaded.dropped == {"HUMAN or RBMT.6722, which WMT leaves out": 2, "no texts of the language pair": 1}
    to_english = load_wmt18(corpus(Layout.WMT18, *parts18, language_pairs=("*-en",)), 2018)
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
    assert load_wmt18(corpus(Layout.WMT18, downloads), 2018) == load_wmt18(corpus(Layout.WMT18, *parts18), 2018)


def test_archives_beside_their_unpacked_folders_change_nothing(parts18: tuple[Path, Path], corpus: Make) -> None:
    ratings, texts = parts18
    expected = load_wmt18(corpus(Layout.WMT18, ratings, texts), 2018)
    for folder, ending in ((ratings, ".tar.gz"), (texts, ".tgz")):
        with tarfile.open(folder.with_name(folder.name + ending), "w:gz") as tar:
            tar.add(folder, arcname=folder.name)
    assert load_wmt18(corpus(Layout.WMT18, ratings.parent), 2018) == expected


def test_2019_takes_the_turkle_ratings_of_zh_en_and_cuts_the_suffix(tmp_path: Path, write: Write, corpus: Make) -> None:
    ratings, texts = tmp_path / "newstest2019-humaneval", tmp_path / "wmt19-submitted-data-v3"
    name = "analysis/ad-seg-scores-zh-en.csv"
    write(ratings / "mturk-newstest2019" / name, HEADER + "a.1.zh-en 1 1 1 1\n")
    turkle = "a.1.zh-en 1 90 1.5 1\nHelsinki-NLP.6889.zh-en 2 50 0 3\n"
    write(ratings / "turkle-sntlevel-humaneval-newstest2019" / name, HEADER + turkle)
    write(
        ratings / "de-cs-newstest2019" / "analysis" / "ad-seg-scores-de-cs.csv",
        HEADER + "Unsupervised.6929 1 10 -1 1\nUnsupervised.6935 1 20 -0.5 1\n",
    )
    write_texts(texts / "txt", write, 2019, "zh-en", {"a.1": "a1\na2\n", "Helsinki_NLP.6889": "h1\nh2\n"})
    unsupervised = {"Unsupervised.de-cs.6929": "x1\nx2\n", "Unsupervised.de-cs.6935": "y1\ny2\n"}
    write_texts(texts / "txt", write, 2019, "de-cs", unsupervised)
    write_texts(texts, write, 2019, "zh-en", {"a.1": "not\nthis\n"})
    loaded = load_wmt18(corpus(Layout.WMT19, ratings, texts), 2019)
    assert [(r.system, r.segment, r.candidate, r.raw, r.z) for r in loaded.ratings] == [
        ("Unsupervised.de-cs.6929", "1", "x1", 10, -1),
        ("Unsupervised.de-cs.6935", "1", "y1", 20, -0.5),
        ("a.1", "1", "a1", 90, 1.5),
        ("Helsinki_NLP.6889", "2", "h2", 50, 0),
    ]


@pytest.mark.parametrize(
    ("rated", "year", "pair", "expected"),
    [
        ("Facebook-FAIR.6937", 2019, "de-en", "Facebook_FAIR.6937"),
        ("DBMS-KU-KKEN.6726", 2019, "kk-en", "DBMS-KU_KKEN.6726"),
        ("Ju-Saarland.6525", 2019, "gu-en", "Ju_Saarland.6525"),
        ("aylien-mt-gu-en-multilingual.6826", 2019, "gu-en", "aylien_mt_gu-en_multilingual.6826"),
        ("rug-kken-morfessor.6677", 2019, "kk-en", "rug_kken_morfessor.6677"),
        ("talp-upc-2019-kken.6657", 2019, "kk-en", "talp_upc_2019_kken.6657"),
        ("Frank-s-MT.6127", 2019, "fi-en", "Frank_s_MT.6127"),
        ("Unsupervised.6935", 2019, "de-cs", "Unsupervised.de-cs.6935"),
        ("Unsupervised.6935", 2019, "de-en", "Unsupervised.6935"),
        ("a-b.1zh-en", 2019, "zh-en", "a-b.1"),
        ("a-b.1-zh-en", 2019, "zh-en", "a-b.1"),
        ("a.1.zh-en", 2018, "zh-en", "a.1.zh-en"),
        ("uedin-nmt.1", 2018, "de-en", "uedin-nmt.1"),
    ],
)
def test_names_are_repaired(rated: str, year: int, pair: str, expected: str) -> None:
    assert repaired(rated, year, pair) == expected


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
        load_wmt18(corpus(Layout.WMT18, *parts18), 2018)


def test_a_missing_half_says_what_to_put_where(parts18: tuple[Path, Path], corpus: Make) -> None:
    with pytest.raises(InputError, match=r"nohybrids: holds no ad-seg-scores.*put newstest2018-humaneval\.tar\.gz and"):
        load_wmt18(corpus(Layout.WMT18, parts18[1]), 2018)
    with pytest.raises(InputError, match=r"holds ratings, but no system outputs.*wmt18-metrics-task-nohybrids\.tgz"):
        load_wmt18(corpus(Layout.WMT18, parts18[0]), 2018)


def test_ratings_that_stand_twice_are_refused(parts18: tuple[Path, Path], write: Write, corpus: Make) -> None:
    write(parts18[0] / "other" / "ad-seg-scores-fi-en.csv", HEADER + "nmt.1 1 1 1 1\n")
    with pytest.raises(InputError, match=r"ad-seg-scores-fi-en\.csv: stands twice, also as "):
        load_wmt18(corpus(Layout.WMT18, *parts18), 2018)
