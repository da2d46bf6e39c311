"""Graded candidates from pairs for natural language inference: rows that are taken, their grades, and bad tables."""

from pathlib import Path
from typing import Any

import pytest

from pipeline.core.errors import InputError, ParamsError
from pipeline.core.params import from_mapping
from pipeline.core.records import GRADED, SEGMENTS
from pipeline.core.shards import shard_name, table_of, write_shard
from pipeline.grade.__main__ import make_job
from pipeline.grade.grading import ShardedGrades, grade_shard
from pipeline.grade.inference import InferenceSource, judged_pairs
from tests.grade.test_grading import grade_params

HEADER = "premise\thypothesis\tlabel"
LINES = [
    "Anna met Tom in Rome.\tAnna met  Tom.\tentailment",
    "Anna met Tom in Rome.\tAnna met Tom in Oslo.\tcontradiction",
    "Anna met Tom in Rome.\tAnna met Tom in Oslo.\tcontradiction",
    "Anna met Tom in Rome.\tAnna met Tom in Rome.\tentailment",
    "Anna met Tom in Rome.\t\tneutral",
    "Anna met Tom in Rome.\tThey are married.\t-",
]


def section(path: Path, **changes: Any) -> dict[str, Any]:
    grades = [["entailment", 0.5], ["neutral", 0.0], ["contradiction", -1.0]]
    columns = ["premise", "hypothesis", "label"]
    return {"name": "nli", "path": str(path), "sha256": None, "columns": columns, "grades": grades, **changes}


def table(folder: Path, lines: list[str]) -> Path:
    file = folder / "nli.tsv"
    file.write_text("\n".join([HEADER, *lines]) + "\n", encoding="utf-8")
    return file


def source(path: Path, **changes: Any) -> InferenceSource:
    return from_mapping(section(path, **changes), InferenceSource, "grade.inference")


def test_rows_have_the_grade_of_their_label_and_others_are_counted(tmp_path: Path) -> None:
    found = judged_pairs((source(table(tmp_path, LINES)),))
    assert [(row["pair_id"], row["candidate"], row["kind"], row["grade"]) for row in found.rows] == [
        ("nli-2/entailment", "Anna met Tom.", "entailment", 0.5),
        ("nli-3/contradiction", "Anna met Tom in Oslo.", "contradiction", -1.0),
    ]
    assert found.lost == {"duplicate": 1, "unchanged": 1, "empty_text": 1, "label without a grade": 1}


def test_shards_share_the_rows_and_account_for_all(tmp_path: Path) -> None:
    params = grade_params(inference=[section(table(tmp_path, LINES))])
    shards = [tmp_path / shard_name(number) for number in (0, 1)]
    for number, shard in enumerate(shards):
        write_shard(shard, table_of([{"segment_id": f"{number}", "title": "T", "text": "It rains."}], SEGMENTS))
    outcomes = [grade_shard(number, [shard], ShardedGrades(params, 2)) for number, shard in enumerate(shards)]
    judged = [row for one in outcomes for row in one.table.to_pylist() if row["pair_id"].startswith("nli-")]
    assert sorted(row["kind"] for row in judged) == ["contradiction", "entailment"]
    assert all(one.table.schema == GRADED for one in outcomes)
    assert sum(one.rows_in for one in outcomes) == 2 * params.draws + len(LINES)
    assert all(one.rows_in == one.rows_out + sum(one.dropped.values()) for one in outcomes)


def test_a_table_that_changes_is_graded_again(tmp_path: Path) -> None:
    write_shard(tmp_path / shard_name(0), table_of([], SEGMENTS))
    params = grade_params(inference=[section(table(tmp_path, LINES))])
    before = make_job(params, tmp_path).extra
    table(tmp_path, LINES[:2])
    assert make_job(params, tmp_path).extra != before


def test_bad_tables_and_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nli\.tsv, line 2: has 2 fields, but the header 3"):
        judged_pairs((source(table(tmp_path, ["One.\tTwo."])),))
    with pytest.raises(InputError, match="the column is missing: 'gold'"):
        judged_pairs((source(table(tmp_path, LINES), columns=["premise", "hypothesis", "gold"]),))
    with pytest.raises(ParamsError, match=r"grades: must name a label"):
        source(tmp_path, grades=[])
    twice = [section(tmp_path), section(tmp_path)]
    with pytest.raises(ParamsError, match="two of them are called nli"):
        grade_params(inference=twice)
