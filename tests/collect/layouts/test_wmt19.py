"""WMT 2019, on folders of our own in the published layout."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.collect.corpus import Corpus
from pipeline.collect.layouts.wmt19 import load, output_name

Write = Callable[[Path, str], Path]
Make = Callable[..., Corpus]
WriteTexts = Callable[[Path, int, str, dict[str, str]], None]

HEADER = "SYS SID RAW.SCR Z.SCR N\n"


def test_zh_en_counts_by_its_turkle_ratings_and_loses_its_suffix(
    tmp_path: Path, write: Write, write_texts: WriteTexts, corpus: Make
) -> None:
    ratings, texts = tmp_path / "newstest2019-humaneval", tmp_path / "wmt19-submitted-data-v3"
    name = "analysis/ad-seg-scores-zh-en.csv"
    write(ratings / "mturk-newstest2019" / name, HEADER + "a.1.zh-en 1 1 1 1\n")
    turkle = "a.1.zh-en 1 90 1.5 1\nHelsinki-NLP.6889.zh-en 2 50 0 3\n"
    write(ratings / "turkle-sntlevel-humaneval-newstest2019" / name, HEADER + turkle)
    write(
        ratings / "de-cs-newstest2019" / "analysis" / "ad-seg-scores-de-cs.csv",
        HEADER + "Unsupervised.6929 1 10 -1 1\nUnsupervised.6935 1 20 -0.5 1\n",
    )
    write_texts(texts / "txt", 2019, "zh-en", {"a.1": "a1\na2\n", "Helsinki_NLP.6889": "h1\nh2\n"})
    unsupervised = {"Unsupervised.de-cs.6929": "x1\nx2\n", "Unsupervised.de-cs.6935": "y1\ny2\n"}
    write_texts(texts / "txt", 2019, "de-cs", unsupervised)
    write_texts(texts, 2019, "zh-en", {"a.1": "not\nthis\n"})
    loaded = load(corpus("wmt19", ratings, texts))
    assert [(r.system, r.segment, r.candidate, r.raw, r.z) for r in loaded.ratings] == [
        ("Unsupervised.de-cs.6929", "1", "x1", 10, -1),
        ("Unsupervised.de-cs.6935", "1", "y1", 20, -0.5),
        ("a.1", "1", "a1", 90, 1.5),
        ("Helsinki_NLP.6889", "2", "h2", 50, 0),
    ]


@pytest.mark.parametrize(
    ("rated", "pair", "expected"),
    [
        ("Facebook-FAIR.6937", "de-en", "Facebook_FAIR.6937"),
        ("DBMS-KU-KKEN.6726", "kk-en", "DBMS-KU_KKEN.6726"),
        ("Ju-Saarland.6525", "gu-en", "Ju_Saarland.6525"),
        ("aylien-mt-gu-en-multilingual.6826", "gu-en", "aylien_mt_gu-en_multilingual.6826"),
        ("rug-kken-morfessor.6677", "kk-en", "rug_kken_morfessor.6677"),
        ("talp-upc-2019-kken.6657", "kk-en", "talp_upc_2019_kken.6657"),
        ("Frank-s-MT.6127", "fi-en", "Frank_s_MT.6127"),
        ("Unsupervised.6935", "de-cs", "Unsupervised.de-cs.6935"),
        ("Unsupervised.6935", "de-en", "Unsupervised.6935"),
        ("a-b.1zh-en", "zh-en", "a-b.1"),
        ("a-b.1-zh-en", "zh-en", "a-b.1"),
    ],
)
def test_names_are_repaired(rated: str, pair: str, expected: str) -> None:
    assert output_name(rated, pair) == expected
