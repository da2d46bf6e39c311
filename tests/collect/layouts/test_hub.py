"""The hub's table of direct assessments, from a local copy of a few rows."""

from collections.abc import Callable
from pathlib import Path

import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest

from pipeline.collect.corpus import Corpus, Layout, Part
from pipeline.collect.layouts.hub import load_hub
from pipeline.core.errors import InputError

Make = Callable[..., Corpus]

HEADER = ("lp", "src", "mt", "ref", "score", "raw", "annotators", "domain", "year")
ROWS = [
    ("de-en", "Eine Katze.", "None", "A cat.", 0.5, 80.0, 1, "news", 2018),
    ("de-en", "Ein Hund.", None, "A dog.", -1.5, None, 1, "news", 2018),
    ("de-en", "Ein Hund.", "A dog.", "A dog.", 1.5, 99.0, 1, "news", 2017),
    ("en-de", "A dog.", "Ein Hund.", "Ein Hund.", 1.0, 98.0, 2, "news", 2018),
    ("de-en", "Ein Huhn.", "A hen.", None, 1.0, 98.0, 2, "news", 2018),
    ("de-en", "Ein Huhn.", "A hen.", "A hen.", None, 98.0, 2, "news", 2018),
]


def table() -> pyarrow.Table:
    return pyarrow.table({name: [row[i] for row in ROWS] for i, name in enumerate(HEADER)})


@pytest.fixture(params=["csv", "parquet"])
def copy(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    file = tmp_path / f"train.{request.param}"
    pyarrow.csv.write_csv(table(), file) if request.param == "csv" else pyarrow.parquet.write_table(table(), file)
    return file


def test_rows_are_chosen_by_year_and_pair_and_the_rest_is_counted(copy: Path, corpus: Make) -> None:
    loaded = load_hub(corpus(Layout.HUB, copy, years=(2018, 2019), language_pairs=("*-en",)))
    assert [(r.reference, r.candidate, r.source, r.raw, r.z, r.score, r.year) for r in loaded.ratings] == [
        ("A cat.", "None", "Eine Katze.", 80.0, 0.5, 0.5, 2018),
        ("A dog.", "", "Ein Hund.", None, -1.5, -1.5, 2018),
    ]
    assert loaded.dropped == {
        "year not chosen": 1,
        "language pair not chosen": 1,
        "no reference": 1,
        "no standardised rating": 1,
    }


def test_without_years_all_are_taken(copy: Path, corpus: Make) -> None:
    assert len(load_hub(corpus(Layout.HUB, copy)).ratings) == 4


def test_a_missing_column_and_a_nan_are_refused(tmp_path: Path, corpus: Make) -> None:
    pyarrow.parquet.write_table(table().drop_columns(["ref"]), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"a\.parquet, line 1: the column is missing: 'ref'"):
        load_hub(corpus(Layout.HUB, tmp_path / "a.parquet"))
    (tmp_path / "b.csv").write_text("lp,src,mt,ref,score,raw,year\nde-en,a,b,c,nan,1,2018\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"b\.csv, line 2: score is not finite: 'nan'"):
        load_hub(corpus(Layout.HUB, tmp_path / "b.csv"))


@pytest.mark.parametrize("year", ["2018.5", "1e20"])
def test_a_year_must_be_one(tmp_path: Path, corpus: Make, year: str) -> None:
    (tmp_path / "a.csv").write_text(f"lp,src,mt,ref,score,raw,year\nde-en,a,b,c,1,1,{year}\n", encoding="utf-8")
    with pytest.raises(InputError, match=rf"a\.csv, line 2: year is not a year: '{year}'"):
        load_hub(corpus(Layout.HUB, tmp_path / "a.csv"))


def test_a_hub_name_may_be_pinned_to_a_revision(tmp_path: Path, corpus: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow.parquet.write_table(table(), tmp_path / "a.parquet")
    asked = []

    def snapshot_download(name: str, revision: str | None, **_: object) -> str:
        asked.append((name, revision))
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    for name in ("owner/ratings@v2", "owner/ratings"):
        assert len(load_hub(corpus(Layout.HUB, Path(name))).ratings) == 4
    assert asked == [("owner/ratings", "v2"), ("owner/ratings", None)]


def test_a_hub_name_has_no_sum(corpus: Make) -> None:
    made = corpus(Layout.HUB, parts=(Part("owner/ratings", "0" * 64),))
    with pytest.raises(InputError, match=r"^owner/ratings: is a data set of the hub, which has no SHA-256; give null"):
        load_hub(made)


def test_a_hub_name_without_network_is_one_sentence(
    tmp_path: Path, corpus: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    expected = r"^owner/ratings: neither a local path nor to be had from the hub \(\w+\); give a CSV or"
    with pytest.raises(InputError, match=expected):
        load_hub(corpus(Layout.HUB, Path("owner/ratings")))
