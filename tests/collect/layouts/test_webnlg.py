"""WebNLG 2017."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.collect.corpus import Corpus
from pipeline.collect.layouts.webnlg import NO_OUTPUT, NOT_A_SYSTEM, load
from pipeline.core.errors import InputError

Write = Callable[[Path, str], Path]
Make = Callable[..., Corpus]

REFERENCES = {3: 153, 2: 58, 1: 12}
"""Number of distinct references -> inputs that have so many, counted from the published files."""

HEADER = "id,mr,team,text,category,type,bleu,meteor,ter,fluency,grammar,semantics\n"
FILES = {
    "MRs.txt": "A | is | b\nC | is | d",
    "sample-ids.txt": "18\n27\n\n",
    "gold-sample-reference0.lex": "a is b .\nc is d .\n",
    "gold-sample-reference1.lex": "b , that is a .\n\n",
    "all_data_final_averaged.csv": HEADER
    + "1,C | is | d,adapt,c d,Food,seen,0.25,0.5,90.5,1.5,3.0,2.25\n"
    + "2,A | is | b,vietnam,null,City,unseen,0,0,100,1,1,1\n"
    + "3,A | is | b,tilburg-pipe,,City,unseen,0,0,100,1,1,1\n"
    + "4,A | is | b,webnlg,a is b,City,unseen,1,1,0,3,3,3\n"
    + "5,A | is | b,vietnam,a b,City,unseen,0,0,100,1,1,1\n",
}


@pytest.fixture
def folder(tmp_path: Path, write: Write) -> Path:
    for name, text in FILES.items():
        write(tmp_path / "webnlg" / name, text)
    return tmp_path / "webnlg"


def test_a_candidate_makes_a_row_for_each_aspect(folder: Path, corpus: Make) -> None:
    ratings = load(corpus("webnlg", folder)).ratings
    assert len(ratings) == 6
    assert [(r.key, r.aspect, r.raw, r.score) for r in ratings[:3]] == [
        ("1/fluency", "fluency", 1.5, 0.5),
        ("1/grammar", "grammar", 3.0, 1.0),
        ("1/semantics", "semantics", 2.25, 0.75),
    ]
    first, last = ratings[0], ratings[-1]
    assert (first.reference, first.other_references, first.candidate) == ("c is d .", (), "c d")
    assert (first.source, first.segment, first.system, first.z, first.year) == ("C | is | d", "27", "adapt", None, None)
    assert (last.reference, last.other_references, last.candidate) == ("a is b .", ("b , that is a .",), "a b")


def test_peoples_own_texts_and_void_predictions_are_left_out_and_counted(folder: Path, corpus: Make) -> None:
    assert load(corpus("webnlg", folder)).dropped == {NOT_A_SYSTEM: 3, NO_OUTPUT: 6}


def test_published_scores_come_along_and_higher_is_better(folder: Path, corpus: Make) -> None:
    ratings = load(corpus("webnlg", folder)).ratings
    assert {rating.published for rating in ratings[:3]} == {(("bleu", 0.25), ("meteor", 0.5), ("ter", -90.5))}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("gold-sample-reference1.lex", "x\n", r"reference1\.lex: has 1 lines, but .*MRs\.txt has 2\."),
        ("sample-ids.txt", "18\n", r"sample-ids\.txt: has 1 lines, but .*MRs\.txt has 2\."),
        ("gold-sample-reference0.lex", "a\n\n", r"reference0\.lex, line 2: the reference is empty in every"),
        ("MRs.txt", "A | is | b\nE | is | f\n", r"averaged\.csv, line 2: mr is not in MRs\.txt: 'C \| is \| d'\."),
        ("all_data_final_averaged.csv", "id,mr\n", r"averaged\.csv, line 1: the column is missing: 'team'\."),
        (
            "all_data_final_averaged.csv",
            HEADER + "1,A | is | b,t,x,c,seen,0,0,0,1,4,1\n",
            r"averaged\.csv, line 2: grammar lies outside the scale 0-3: '4'\.",
        ),
        (
            "all_data_final_averaged.csv",
            HEADER + "1,A | is | b,t,x,c,seen,0,0,0,1,1,1\n" + "1,A | is | b,u,x,c,seen,0,0,0,1,1,1\n",
            r"averaged\.csv, line 3: id occurs twice: '1'\.",
        ),
    ],
)
def test_malformed_files_are_refused(
    folder: Path, write: Write, corpus: Make, name: str, text: str, message: str
) -> None:
    write(folder / name, text)
    with pytest.raises(InputError, match=message):
        load(corpus("webnlg", folder))


def test_a_missing_file_is_named(folder: Path, corpus: Make) -> None:
    (folder / "MRs.txt").unlink()
    with pytest.raises(InputError, match=r"webnlg: this file is missing in it: 'MRs\.txt'\."):
        load(corpus("webnlg", folder))


def test_the_published_data(real_data: Path, corpus: Make) -> None:
    loaded = load(corpus("webnlg", real_data / "webnlg2017"))
    ratings = loaded.ratings
    assert len(ratings) == 3 * (2230 - 223 - 193)
    assert loaded.dropped == {NOT_A_SYSTEM: 3 * 223, NO_OUTPUT: 3 * 193}
    assert Counter(rating.system for rating in ratings)["adapt"] == 3 * 223
    assert len({rating.segment for rating in ratings}) == 223
    by_input = {rating.segment: 1 + len(rating.other_references) for rating in ratings}
    assert Counter(by_input.values()) == REFERENCES
    first = ratings[2]
    assert (first.key, first.system, first.raw) == ("1/semantics", "adapt", 1.3333333333333333)
    assert sum(1 + len(rating.other_references) for rating in ratings) == 3 * 4772
    assert dict(first.published) == {"bleu": 0.232, "meteor": 0.1859555124799, "ter": -90.909}
