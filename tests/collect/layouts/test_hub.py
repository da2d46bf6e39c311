"""The hub's table of direct assessments, from a local copy of a few rows."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import datasets
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest

from pipeline.collect.corpus import Corpus, Part
from pipeline.collect.layouts.hub import load
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
    loaded = load(corpus("hub", copy, years=(2018, 2019), language_pairs=("*-en",)))
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
    assert len(load(corpus("hub", copy)).ratings) == 4


def test_a_missing_column_and_a_nan_are_refused(tmp_path: Path, corpus: Make) -> None:
    pyarrow.parquet.write_table(table().drop_columns(["ref"]), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"a\.parquet, line 1: the column is missing: 'ref'"):
        load(corpus("hub", tmp_path / "a.parquet"))
    (tmp_path / "b.csv").write_text("lp,src,mt,ref,score,raw,year\nde-en,a,b,c,nan,1,2018\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"b\.csv, line 2: score is not finite: 'nan'"):
        load(corpus("hub", tmp_path / "b.csv"))


@pytest.mark.parametrize("year", ["2018.5", "1e20"])
def test_a_year_must_be_one(tmp_path: Path, corpus: Make, year: str) -> None:
    (tmp_path / "a.csv").write_text(f"lp,src,mt,ref,score,raw,year\nde-en,a,b,c,1,1,{year}\n", encoding="utf-8")
    with pytest.raises(InputError, match=rf"a\.csv, line 2: year is not a year: '{year}'"):
        load(corpus("hub", tmp_path / "a.csv"))


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str | None]]:
    """The folder `tmp_path/hub` stands for every data set of the hub; the list fills with what was asked for."""
    asked: list[tuple[str, str | None]] = []
    folder, cache = str(tmp_path / "hub"), str(tmp_path / "cache")
    load_dataset, load_dataset_builder = datasets.load_dataset, datasets.load_dataset_builder

    def loaded(name: str, revision: str | None, **options: object) -> datasets.DatasetDict:
        asked.append((name, revision))
        return load_dataset(folder, cache_dir=cache, **options)

    monkeypatch.setattr("datasets.load_dataset_builder", lambda *_, **__: load_dataset_builder(folder, cache_dir=cache))
    monkeypatch.setattr("datasets.load_dataset", loaded)
    return asked


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_data_set_of_the_hub_gives_the_rows_of_its_copy(
    tmp_path: Path, corpus: Make, hub: list[tuple[str, str | None]], ending: str
) -> None:
    for split in ("test", "train"):
        file = tmp_path / "hub" / f"{split}.{ending}"
        file.parent.mkdir(exist_ok=True)
        pyarrow.csv.write_csv(table(), file) if ending == "csv" else pyarrow.parquet.write_table(table(), file)
    copied = load(corpus("hub", tmp_path / "hub" / f"test.{ending}")).ratings
    loaded = load(corpus("hub", Path("owner/ratings")))
    plain = [dataclasses.replace(rating, key="") for rating in loaded.ratings]
    assert plain == 2 * [dataclasses.replace(rating, key="") for rating in copied]
    assert [rating.key for rating in loaded.ratings] == [f"{split}/{row}" for split in (1, 2) for row in (1, 2, 3, 4)]
    assert loaded.dropped == {"no reference": 2, "no standardised rating": 2}
    assert hub == [("owner/ratings", None)]


def test_a_hub_name_may_be_pinned_to_a_revision(
    tmp_path: Path, corpus: Make, hub: list[tuple[str, str | None]], write: Callable[[Path, str], Path]
) -> None:
    write(tmp_path / "hub" / "a.csv", "lp,src,mt,ref,score,raw,year\nde-en,NA,null,n/a,0.1234567890123456,7,2018\n")
    (rating,) = load(corpus("hub", Path("owner/ratings@v2"))).ratings
    assert (rating.source, rating.candidate, rating.reference, rating.z) == ("NA", "null", "n/a", 0.1234567890123456)
    assert (rating.key, hub) == ("1", [("owner/ratings", "v2")])


def test_rows_of_the_hub_are_checked_too(
    tmp_path: Path, corpus: Make, hub: list[tuple[str, str | None]], write: Callable[[Path, str], Path]
) -> None:
    write(tmp_path / "hub" / "a.csv", "lp,src,mt,ref,score,raw\nde-en,a,b,c,1,1\n")
    with pytest.raises(InputError, match=r"^owner/ratings, split train, line 1: the column is missing: 'year'\.$"):
        load(corpus("hub", Path("owner/ratings")))
    write(tmp_path / "hub" / "a.csv", "lp,src,mt,ref,score,raw,year\nde-en,a,b,c,1,1,2018\nde-en,a,b,c,1,1,20180\n")
    with pytest.raises(InputError, match=r"^owner/ratings, split train, line 2: year is not a year: 20180\.$"):
        load(corpus("hub", Path("owner/ratings")))


def test_a_hub_name_has_no_sum(corpus: Make) -> None:
    made = corpus("hub", parts=(Part(path="owner/ratings", sha256="0" * 64),))
    with pytest.raises(InputError, match=r"^owner/ratings: is a data set of the hub, which has no SHA-256; give null"):
        load(made)


def test_a_hub_name_without_network_is_one_sentence(
    tmp_path: Path, corpus: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    expected = r"neither a local path nor available from the hub \(\w+\); give a CSV or"
    for name in ("owner/ratings", "owner/ratings@v2", "no owner or name"):
        with pytest.raises(InputError, match=rf"^{name}: {expected}"):
            load(corpus("hub", Path(name)))


def test_a_name_that_the_hub_does_not_know_is_one_sentence(corpus: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise datasets.exceptions.DatasetNotFoundError("Dataset 'owner/rating' doesn't exist on the Hub.")

    monkeypatch.setattr("datasets.load_dataset_builder", unknown)
    expected = r"^owner/rating: is neither a local path nor a data set or revision of the hub\.$"
    with pytest.raises(InputError, match=expected):
        load(corpus("hub", Path("owner/rating")))
