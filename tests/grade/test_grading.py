"""The graded candidates of a shard: nothing is graded twice, every attempt is accounted for, and bad params."""

from pathlib import Path
from typing import Any

import pytest

from pipeline.core.errors import ParamsError
from pipeline.core.params import from_mapping
from pipeline.core.records import GRADED, SEGMENTS
from pipeline.core.shards import shard_name, table_of, write_shard
from pipeline.grade.grading import GradeParams, ShardedGrades, grade_shard
from pipeline.grade.kinds import Kind

TEXT = "On Monday the mayor of Lyon opened 14 schools, but he did not pay for three of them."


def grade_params(**changes: Any) -> GradeParams:
    paraphrases = {"sources": [], "min_words": 3, "max_overlap": 0.6, "longest": 1}
    kinds = {kind.value: {"grade": float(-number), "weight": 1.0} for number, kind in enumerate(Kind)}
    section = {"seed": 1, "kinds": kinds, "draws": 4, "segments": None, "paraphrases": paraphrases}
    section |= {"inference": [], **changes}
    return from_mapping(section, GradeParams, "grade")


def test_a_shard_has_its_grades_and_accounts_for_every_attempt(tmp_path: Path) -> None:
    rows = [{"segment_id": f"1-{i}", "title": "T", "text": TEXT.replace("14", str(20 + i))} for i in range(30)]
    file = tmp_path / shard_name(0)
    write_shard(file, table_of(rows, SEGMENTS))
    outcome = grade_shard(0, [file], ShardedGrades(grade_params(), 1))
    found = outcome.table.to_pylist()
    assert outcome.rows_in == 30 * 4 and outcome.table.schema == GRADED
    assert len({row["pair_id"] for row in found}) == len(found)
    assert len({(row["reference"], row["candidate"]) for row in found}) == len(found)
    assert all(row["grade"] == grade_params().kinds[row["kind"]].grade for row in found)
    assert {"paraphrase", "untranslated"}.isdisjoint(row["kind"] for row in found)
    assert {row["kind"] for row in found} >= {"identical", "half", "negated", "wrong_name", "empty"}
    assert grade_shard(0, [file], ShardedGrades(grade_params(), 1)).table.equals(outcome.table)
    kinds = {kind.value: {"grade": 1.0, "weight": float(kind in ("half", "empty"))} for kind in Kind}
    two = grade_shard(0, [file], ShardedGrades(grade_params(kinds=kinds), 1)).table.to_pylist()
    assert {row["kind"] for row in two} == {"half", "empty"}
    few = grade_shard(0, [file], ShardedGrades(grade_params(segments=10), 2))
    assert few.rows_in == 5 * 4


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ParamsError, match=r"grade\.kinds: must name identical, "):
        grade_params(kinds={"identical": {"grade": 1.0, "weight": 1.0}})
    with pytest.raises(ParamsError, match=r"grade\.kinds\.empty\.weight: must be at least 0, not -1\.0"):
        grade_params(kinds={kind.value: {"grade": 1.0, "weight": 1.0 - 2.0 * (kind == "empty")} for kind in Kind})
    with pytest.raises(ParamsError, match=r"grade\.kinds: must give a weight to a kind other than paraphrase and untr"):
        grade_params(kinds={kind.value: {"grade": 1.0, "weight": float(kind == "paraphrase")} for kind in Kind})
    with pytest.raises(ParamsError, match=r"grade\.draws"):
        grade_params(draws=0)
    with pytest.raises(ParamsError, match=r"grade\.segments"):
        grade_params(segments=0)
