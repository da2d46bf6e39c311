"""WMT 2015 and 2016."""

import tarfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.collect.corpus import Corpus
from pipeline.collect.layouts.wmt_daseg import load
from pipeline.core.errors import InputError

Write = Callable[[Path, str], Path]
Make = Callable[..., Corpus]

STEM = "DAseg.newstest2015"


@pytest.fixture
def folder(tmp_path: Path, write: Write) -> Path:
    """Two lines of de-en with a source, one line of en-ru without."""
    place = tmp_path / "DAseg-wmt-newstest2015"
    for name, text in {
        "human.de-en": "0.5\n-1.25\n",
        "reference.de-en": "A cat.\nA dog.\u2028\n",
        "mt-system.de-en": "The cat.\n\n",
        "source.de-en": "Eine Katze.\nEin Hund.\n",
        "human.en-ru": "1\n",
        "reference.en-ru": "Кот.\n",
        "mt-system.en-ru": "Кошка.\n",
    }.items():
        write(place / f"{STEM}.{name}", text)
    return place


def test_parallel_lines_become_rows(folder: Path, corpus: Make) -> None:
    loaded = load(corpus("wmt_daseg", folder))
    assert [(r.key, r.reference, r.candidate, r.source, r.z, r.score, r.raw) for r in loaded.ratings] == [
        ("de-en/1", "A cat.", "The cat.", "Eine Katze.", 0.5, 0.5, None),
        ("de-en/2", "A dog.", "", "Ein Hund.", -1.25, -1.25, None),
        ("en-ru/1", "Кот.", "Кошка.", None, 1.0, 1.0, None),
    ]
    assert {rating.year for rating in loaded.ratings} == {2015}
    assert loaded.dropped == Counter()


def test_other_pairs_are_counted(folder: Path, corpus: Make) -> None:
    loaded = load(corpus("wmt_daseg", folder, language_pairs=("*-en",)))
    assert (len(loaded.ratings), loaded.dropped) == (2, {"language pair not chosen": 1})


@pytest.mark.parametrize("inside", [False, True])
def test_the_official_archive_gives_the_same_rows(folder: Path, tmp_path: Path, corpus: Make, inside: bool) -> None:
    place = tmp_path / "downloads" / "DAseg-wmt-newstest2015.tar.gz"
    place.parent.mkdir()
    with tarfile.open(place, "w:gz") as tar:
        tar.add(folder, arcname=folder.name)
    packed = load(corpus("wmt_daseg", place.parent if inside else place))
    assert packed == load(corpus("wmt_daseg", folder))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("mt-system.de-en", b"one\n", r"mt-system\.de-en: has 1 lines, but .*human\.de-en has 2\."),
        ("reference.de-en", b"a\nb\nc\n", r"reference\.de-en: has 3 lines, but .*human\.de-en has 2\."),
        ("source.de-en", b"a\n", r"source\.de-en: has 1 lines, but .*human\.de-en has 2\."),
        ("reference.de-en", b"a\n \n", r"reference\.de-en, line 2: the reference is empty\."),
        ("human.de-en", b"0.5\nx\n", r"human\.de-en, line 2: the rating is not a number: 'x'\."),
        ("human.de-en", b"nan\n1\n", r"human\.de-en, line 1: the rating is not finite: 'nan'\."),
        ("mt-system.de-en", b"a\n\xff\n", r"mt-system\.de-en, line 2: not valid UTF-8: "),
        ("reference.de-en", None, r"human\.de-en: DAseg\.newstest2015\.reference\.de-en is missing beside it\."),
    ],
)
def test_malformed_files_are_refused(
    folder: Path, corpus: Make, name: str, content: bytes | None, message: str
) -> None:
    file = folder / f"{STEM}.{name}"
    file.unlink() if content is None else file.write_bytes(content)
    with pytest.raises(InputError, match=message):
        load(corpus("wmt_daseg", folder))


def test_no_ratings_and_two_years_are_refused(folder: Path, tmp_path: Path, write: Write, corpus: Make) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty: holds no DAseg.*put DAseg-wmt-newstest2015\.tar\.gz"):
        load(corpus("wmt_daseg", tmp_path / "empty"))
    write(folder / "DAseg.newstest2016.human.de-en", "1\n")
    with pytest.raises(InputError, match="several years; make each a corpus of its own: '2015, 2016'"):
        load(corpus("wmt_daseg", folder))


@pytest.mark.parametrize(("year", "per_pair"), [(2015, 500), (2016, 560)])
def test_the_published_data(real_data: Path, corpus: Make, year: int, per_pair: int) -> None:
    loaded = load(corpus("wmt_daseg", real_data / "wmt" / f"DAseg-wmt-newstest{year}"))
    found = Counter(rating.language_pair for rating in loaded.ratings)
    assert found == dict.fromkeys(("cs-en", "de-en", "fi-en", "ru-en"), per_pair)
    if year == 2015:
        first = loaded.ratings[0]
        assert first.z == 0.358416185713199
        assert first.candidate == '"Our obligation is to stay at his side," he said and applauded.'
