"""Files of WMT's metrics task: what we write and read again is what we scored; malformed lines are named."""

from pathlib import Path
from typing import Any

import pandas
import pytest

from pipeline.core.errors import InputError
from pipeline.core.records import PREDICTIONS, SYSTEM_PREDICTIONS
from pipeline.evaluate.metrics_task import NO_SCORE, Published, read_scores, scores_of_others, write_scores


def row(system: str | None, segment: str | None, number: int = 0, **changes: Any) -> dict[str, Any]:
    name = {"rating_id": f"{system}/{segment}/{number}", "corpus": "wmt17", "language_pair": "de-en"}
    return {**name, "system": system, "segment": segment, **changes}


ROWS = [row("a", "1"), row("a", "2"), row("b+c", "1"), row("b", "2"), row("c", "2")]
SCORES = dict(zip((one["rating_id"] for one in ROWS), (0.25, 0.1 + 0.2, -1.0, 4.0, 5.0), strict=True))


def predictions(metric: str = "bleurt/all") -> pandas.DataFrame:
    rows = [{"rating_id": name, "metric": metric, "score": score} for name, score in SCORES.items()]
    return pandas.DataFrame(rows, columns=PREDICTIONS.names)


def of_systems(**scores: float) -> pandas.DataFrame:
    rows = [("wmt17", "de-en", system, "bleu", score) for system, score in scores.items()]
    return pandas.DataFrame(rows, columns=SYSTEM_PREDICTIONS.names)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    table = pandas.concat([predictions(), predictions("published/ter")])
    files, without = write_scores(tmp_path, ROWS, table, of_systems(a=31.5, b=30.25))
    assert [file.name for file in files] == ["bleurt-all.seg.score", "bleurt-all.sys.score", "bleu.sys.score"]
    assert without == 0
    lines = files[0].read_text(encoding="utf-8").splitlines()
    assert lines[:3] == [
        "bleurt/all\tde-en\twmt17\tref\ta\t1\t0.25",
        "bleurt/all\tde-en\twmt17\tref\ta\t2\t0.30000000000000004",
        "bleurt/all\tde-en\twmt17\tref\tb\t1\t-1.0",
    ]
    assert len(lines) == 6  # b and c share an output
    found = scores_of_others([Published(str(file), "wmt17") for file in files], ROWS, set())
    assert dict(zip(found.segments["rating_id"], found.segments["score"], strict=True)) == SCORES
    assert set(found.segments["metric"]) == {"published/bleurt/all"}
    systems = {(one["metric"], one["system"]): one["score"] for one in found.systems.to_dict("records")}
    assert systems == {
        ("published/bleurt/all", "a"): pytest.approx(0.275),
        ("published/bleurt/all", "b"): pytest.approx(1.5),
        ("published/bleurt/all", "c"): pytest.approx(2.0),
        ("published/bleu", "a"): 31.5,
        ("published/bleu", "b"): 30.25,
    }
    assert found.signatures["published/bleu"] == "as published in bleu.sys.score"
    assert found.left_out == []


def test_rows_without_system_or_segment_are_counted_and_not_written(tmp_path: Path) -> None:
    rows = [*ROWS, row(None, "3"), row("a", None), row("a", "x7")]
    files, without = write_scores(tmp_path, rows, predictions(), of_systems())
    assert without == 3 and len(read_scores(files[0])) == 6


def test_a_segment_that_was_judged_twice_is_one_line(tmp_path: Path) -> None:
    rows = [*ROWS, row("a", "1", 1)]
    more = pandas.DataFrame([("a/1/1", "bleurt/all", 9.0)], columns=PREDICTIONS.names)
    files, _ = write_scores(tmp_path, rows, pandas.concat([predictions(), more]), of_systems())
    assert [one.score for one in read_scores(files[0]) if (one.system, one.segment) == ("a", "1")] == [0.25]


def test_several_references_make_several_metrics_and_missing_scores_are_told(tmp_path: Path) -> None:
    file = tmp_path / "beer.seg.score"
    lines = [f"BEER\tde-en\tnewstest2017\t{ref}\ta\t{segment}\t0.5" for ref in ("refA", "refB") for segment in (1, 2)]
    file.write_text("\n".join([*lines, "BEER\tde-en\tnewstest2017\trefB\tb\t2\t0.1", ""]), encoding="utf-8")
    found = scores_of_others([Published(str(file), "wmt17")], ROWS, set())
    assert list(found.segments.groupby("metric").size().items()) == [
        ("published/BEER/refA", 2),
        ("published/BEER/refB", 3),
    ]
    assert found.left_out == [
        {"metric": "published/BEER/refA", "reason": NO_SCORE, "rows": 3},
        {"metric": "published/BEER/refB", "reason": NO_SCORE, "rows": 2},
    ]
    other = scores_of_others([Published(str(file), "wmt18")], ROWS, set())
    assert other.segments.empty and other.left_out == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("M\tde-en\tt\tref\ta\t0.5\nM\tde-en\tt\ta\t0.5\n", "line 2: has 5 fields between tabs, must have 7 or 6"),
        ("M de-en t ref a 1 0.5\n", "line 1: has 1 fields between tabs"),
        ("M\tde-en\tt\tref\ta\tone\t0.5\n", "line 1: SEGMENT is not a whole number: 'one'"),
        ("M\tde-en\tt\tref\ta\t1\tnan\n", "line 1: SCORE is not finite"),
        (
            "M\tde-en\tt\tref\ta\t0.5\nM\tde-en\tt\tref\ta\t1\t0.5\n",
            "line 2: is for segments where others are for systems",
        ),
        ("M\tde-en\tt\tref\ta\t1\t0.5\n" * 2, "line 2: scores a second time"),
        ("\n", "holds no score"),
    ],
)
def test_malformed_lines_are_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "scores"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_scores(file)


def test_two_scores_of_one_metric_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "ter.seg.score"
    file.write_text("ter\tde-en\tt\tref\ta\t1\t0.5\n", encoding="utf-8")
    given = Published(str(file), "wmt17")
    with pytest.raises(InputError, match="scores of this metric were published with the ratings: 'published/ter'"):
        scores_of_others([given], ROWS, {"published/ter"})
    with pytest.raises(InputError, match="two of these files score the same: 'published/ter'"):
        scores_of_others([given, given], ROWS, set())
