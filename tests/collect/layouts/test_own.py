"""One's own ratings."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from pipeline.collect.corpus import OTHER_PAIR, Corpus, Rating
from pipeline.collect.layouts.own import load
from pipeline.core.errors import InputError

Write = Callable[[Path, str], Path]
Make = Callable[..., Corpus]

FULL = Rating(
    key="2",
    aspect="adequacy",
    reference="A cat.",
    other_references=(),
    candidate="The cat.",
    source="Eine Katze.",
    language_pair="de-en",
    system="S1",
    segment="7",
    year=None,
    raw=80.0,
    z=None,
    score=0.8,
)


def test_the_four_formats_give_the_same_row(tmp_path: Path, write: Write, corpus: Make) -> None:
    names = ["reference", "candidate", "score", "source", "language_pair", "system", "segment", "category"]
    cells = ["A cat.", "The cat.", "80", "Eine Katze.", "de-en", "S1", "7", "paraphrase"]
    row = {**dict(zip(names, cells, strict=True)), "score": 80, "segment": 7}
    files = [
        write(tmp_path / "a.csv", ",".join(names) + "\n" + ",".join(cells) + "\n"),
        write(tmp_path / "a.tsv", "\t".join(names) + "\n" + "\t".join(cells) + "\n"),
        write(tmp_path / "a.jsonl", "\n" + json.dumps(row) + "\n"),
        tmp_path / "a.parquet",
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([{**row, "segment": 6}, row]), files[3])
    for file in files:
        assert load(corpus("own", file)).ratings[-1] == FULL


def test_a_standardised_score_is_the_target_itself(tmp_path: Path, write: Write, corpus: Make) -> None:
    file = write(tmp_path / "a.csv", "reference,candidate,score\na,b,-1.5\n")
    (rating,) = load(corpus("own", file, scale=None)).ratings
    assert (rating.raw, rating.z, rating.score) == (None, -1.5, -1.5)


def test_optional_columns_are_null_and_an_empty_candidate_is_legal(tmp_path: Path, write: Write, corpus: Make) -> None:
    file = write(tmp_path / "a.csv", "reference,candidate,score,source,system\na,,0,,\n")
    (rating,) = load(corpus("own", file)).ratings
    assert (rating.candidate, rating.score) == ("", 0.0)
    assert [rating.source, rating.system, rating.segment, rating.language_pair] == [None] * 4


def test_further_references_are_kept_once(tmp_path: Path, write: Write, corpus: Make) -> None:
    file = write(
        tmp_path / "a.jsonl",
        '{"reference": "a", "references": ["b", "a", "", "c"], "candidate": "x", "score": 1}\n'
        '{"references": ["d", "e"], "candidate": null, "score": "2"}\n',
    )
    ratings = load(corpus("own", file)).ratings
    assert [(r.reference, r.other_references) for r in ratings] == [("a", ("b", "c")), ("d", ("e",))]
    file = write(tmp_path / "a.tsv", 'references\tcandidate\tscore\n["a", "b"]\tx\t1\n')
    assert load(corpus("own", file)).ratings[0].other_references == ("b",)


def test_equal_rows_stay_and_pairs_are_chosen(tmp_path: Path, write: Write, corpus: Make) -> None:
    rows = "a,b,1,de-en\na,b,1,de-en\na,b,1,en-de\na,b,1,\n"
    file = write(tmp_path / "a.csv", "reference,candidate,score,language_pair\n" + rows)
    loaded = load(corpus("own", file, language_pairs=("*-en", "fr-*")))
    assert [rating.key for rating in loaded.ratings] == ["2", "3"]
    assert loaded.dropped == {OTHER_PAIR: 2}


def test_several_files_have_keys_of_their_own(tmp_path: Path, write: Write, corpus: Make) -> None:
    for name in ("b.csv", "a.csv"):
        write(tmp_path / name, f"reference,candidate,score\n{name},b,1\n")
    ratings = load(corpus("own", tmp_path)).ratings
    assert [(rating.key, rating.reference) for rating in ratings] == [("1/2", "a.csv"), ("2/2", "b.csv")]


def test_a_missing_reference_is_blamed_on_its_own_line(tmp_path: Path, write: Write, corpus: Make) -> None:
    good = '{"reference": "a", "candidate": "b", "score": 1}\n'
    file = write(tmp_path / "a.jsonl", good * 2 + '{"candidate": "b", "score": 1}\n')
    with pytest.raises(InputError, match=r"a\.jsonl, line 3: the column is missing: 'reference'"):
        load(corpus("own", file))
    file = write(tmp_path / "a.tsv", "candidate\tscore\nb\t1\n")
    with pytest.raises(InputError, match=r"a\.tsv, line 1: the column is missing: 'reference'"):
        load(corpus("own", file))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"candidate": "b", "score": 1}', "line 1: the column is missing: 'reference'"),
        ('{"reference": "a", "score": 1}', "line 1: the column is missing: 'candidate'"),
        ('{"reference": " ", "candidate": "b", "score": 1}', "line 1: reference is empty: ' '"),
        ('{"reference": null, "candidate": "b", "score": 1}', "line 1: reference is empty"),
        ('{"references": [], "candidate": "b", "score": 1}', r"line 1: references is empty: \[\]"),
        ('{"references": 5, "candidate": "b", "score": 1}', "line 1: references is not a list of texts: 5"),
        ('{"reference": "a", "candidate": "b", "score": "good"}', "line 1: score is not a number: 'good'"),
        ('{"reference": "a", "candidate": "b", "score": ""}', "line 1: score is not a number: ''"),
        ('{"reference": "a", "candidate": "b", "score": null}', "line 1: score is not a number"),
        ('{"reference": "a", "candidate": "b", "score": "5_0"}', "line 1: score is not a number: '5_0'"),
        ('{"reference": "a", "candidate": "b", "score": true}', "line 1: score is not a number: True"),
        ('{"reference": "a", "candidate": "b", "score": NaN}', "line 1: score is not finite: nan"),
        ('{"reference": "a", "candidate": "b", "score": "-inf"}', "line 1: score is not finite: '-inf'"),
        ('{"reference": "a", "candidate": "b", "score": 101}', "line 1: score lies outside the scale 0-100: 101"),
        ('{"reference": "a", "candidate": 5, "score": 1}', "line 1: candidate is not text: 5"),
        ('{"reference": "a\\ud800", "candidate": "b", "score": 1}', r"line 1: not valid UTF-8: 'a\\ud800'"),
    ],
)
def test_malformed_rows_name_file_line_and_value(
    tmp_path: Path, write: Write, corpus: Make, row: str, message: str
) -> None:
    file = write(tmp_path / "mine.jsonl", row + "\n")
    with pytest.raises(InputError, match=r"mine\.jsonl, " + message):
        load(corpus("own", file))
