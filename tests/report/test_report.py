"""The report stage: its files, that it opens offline, that it escapes texts, and that it names absent stages."""

import csv
import json
import math
import re
import shutil
import sys
from dataclasses import fields
from pathlib import Path

import pandas
import pytest
from tiny_outputs import CORPORA, HOSTILE, PARAMS_FILE, ROWS, SCORES, SIGNALS, Checker, make, write_evaluation

from pipeline.core.errors import InputError, ParamsError
from pipeline.core.params import from_mapping
from pipeline.core.records import AGREEMENT, AVERAGE
from pipeline.core.work import write_json
from pipeline.report import __main__ as stage
from pipeline.report.__main__ import ReportParams, show
from pipeline.report.content import pair_table, trend
from pipeline.report.figures import ticks
from pipeline.report.gather import Folders
from pipeline.report.samples import places, worst
from pipeline.report.views import benchmarks


def test_the_page_is_whole_and_opens_offline(full: Path) -> None:
    page = make(full)
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    assert checker.addresses == ["run.html"]  # beside it, and opened only on a click
    assert {"script", "link", "img", "iframe"} & checker.tags == set()
    assert re.findall(r"https?://|@import|url\(", page) == []


def test_texts_of_candidates_are_escaped(full: Path) -> None:
    page = make(full)
    assert "<script>" not in page
    assert "&lt;script&gt;alert(&#34;candidate&#34;)&lt;/script&gt; &amp; co" in page
    assert "s&amp;s" in page


def test_the_page_shows_what_ran(full: Path) -> None:
    page = make(full)
    for text in (
        "Profile <b>local</b>",
        "too short: 1,195",
        "nothing to mask: 1",
        "mask fill, span, words dropped",
        "backtranslation it reference candidate",
        "backtranslation es candidate reference",
        "nrefs:1|tok:13a",
        "schedule.steps",
        "schedule.seed",
        "Left out of the averages: fi-en (all ratings are equal).",
        "Other people’s results.",
        "59.3 / 77.3",
        "undefined",
    ):
        assert text in page, text
    assert "Demonstration" not in page
    assert "Not everything has run" not in page


def test_a_demonstration_says_why_it_is_one(full: Path) -> None:
    small, ours = "The run is small", "The ratings of wmt17 were written by the project itself."
    sample = CORPORA.replace("data/own", "./data/sample")
    found = {
        (profile, corpora): make(full, profile, corpora)
        for profile in ("embedded", "local")
        for corpora in (CORPORA, sample)
    }
    assert {case: (small in page, ours in page) for case, page in found.items()} == {
        ("embedded", CORPORA): (True, False),
        ("embedded", sample): (True, True),
        ("local", CORPORA): (False, False),
        ("local", sample): (False, True),
    }
    assert [case for case, page in found.items() if "Demonstration" not in page] == [("local", CORPORA)]


def test_variants_that_params_do_not_name_are_not_shown(full: Path) -> None:
    for stage_folder in ("pretrain", "finetune"):
        shutil.copytree(full / stage_folder / "all", full / stage_folder / "only_bleu")
    assert "only_bleu" not in make(full)
    assert sorted(f.name for f in (full / "reports" / "plots" / "finetune").iterdir()) == ["all.csv", "none.csv"]


def test_the_metric_of_the_report_is_chosen_by_name() -> None:
    def primary(**kendall: float) -> str | None:
        rows = [{**CELL, "metric": f"bleurt/{name}", "value": value} for name, value in kendall.items()]
        (mark,) = benchmarks([*rows, {**CELL, "metric": "ter", "value": 0.9}])
        assert mark.metrics[:-1] == tuple(f"bleurt/{name}" for name in sorted(kendall, key=lambda n: -kendall[n]))
        assert mark.metrics[-1] == "ter"
        return mark.primary

    assert primary(none=0.5, all=0.1, only_bleu=0.4) == "bleurt/all"
    assert primary(no_bleu=0.3, only_flag=0.5, none=0.6) == "bleurt/no_bleu"
    assert primary(none=0.6) == "bleurt/none" and primary() is None


def test_the_calibration_line_keeps_equal_ratings_together() -> None:
    points = [(human, metric) for human in (0.0, 50.0, 100.0) for metric in (-1.0, 0.0, 1.0)]
    assert trend(points) == [(0.0, 0.0), (50.0, 0.0), (100.0, 0.0)]
    assert len(trend([(float(i), 0.0) for i in range(100)])) == 10


def test_benchmarks_stand_in_the_order_of_the_corpora() -> None:
    rows = [{**CELL, "corpus": name} for name in ("b", "other", "c", "a")]
    assert [mark.corpus for mark in benchmarks(rows, ["c", "a", "b"])] == ["c", "a", "b", "other"]


def test_a_metric_without_a_cell_gets_a_dash_and_counts_that_differ_a_range() -> None:
    cells = [("a", "kendall", 9), ("b", "kendall", 9), ("c", "kendall", 9), ("a", "darr", 1200), ("b", "darr", 7)]
    (mark,) = benchmarks([{**CELL, "metric": m, "statistic": s, "count": n} for m, s, n in cells])
    table = pair_table(mark, "darr")
    texts = [(row["metric"], [cell.text if cell else None for cell, _ in row["cells"]]) for row in table["rows"]]
    assert texts == [("a", ["50.0"]), ("b", ["50.0"]), ("c", [None])]
    assert table["counts"] == {AVERAGE: "7 – 1,200"}
    assert pair_table(mark, "kendall")["counts"] == {AVERAGE: "9"}


def test_a_metric_of_systems_stands_last_and_has_no_interval() -> None:
    of_systems = {
        **CELL,
        "metric": "bleu",
        "statistic": "system_kendall",
        "low": math.nan,
        "high": math.nan,
        "count": 5,
    }
    (mark,) = benchmarks([of_systems, CELL, {**of_systems, "metric": "ter"}])
    assert (mark.metrics, mark.statistics, mark.rows) == (("ter", "bleu"), ("kendall", "system_kendall"), 9)
    cells = [mark.average(statistic, "bleu") for statistic in mark.statistics]
    assert [cell and (cell.line, cell.count) for cell in cells] == [None, (" 50.0", 5)]
    (alone,) = benchmarks([of_systems])
    assert (alone.metrics, alone.rows, alone.all_rows) == (("bleu",), 0, 0)


def test_metrics_hold_agreement_gain_and_rows(full: Path) -> None:
    make(full)
    found = json.loads((full / "reports" / "metrics.json").read_text())
    values = found["agreement"]["wmt17"]["adequacy"]
    # Of de-en's 66 pairs of rows, the 11 with row 0 are in the wrong order; cs-en's are all right.
    assert values["bleurt/all"]["kendall"] == pytest.approx(((66 - 22) / 66 + 1) / 2, abs=1e-6)
    assert values["ter"] == {"kendall": None, "pearson": None, "spearman": None}
    gain = found["gain_of_pretraining"]["wmt17"]["adequacy"]["bleurt/all"]["kendall"]
    assert gain == pytest.approx(values["bleurt/all"]["kendall"] - values["bleurt/none"]["kendall"], abs=2e-6)
    training = {f"{name} {variant}": 37 for name in ("pretrain", "finetune") for variant in ("all", "none")}
    assert found["rows"] == {"extract": 5, "perturb": 4, **training, "grade": 8, "evaluate": 24}
    assert found["validation"] == {"all": 0.4, "none": 0.4}
    assert set(found) == {"agreement", "gain_of_pretraining", "validation", "rows"}


CELL = dict(zip(AGREEMENT.names, ("own", "adequacy", "ter", AVERAGE, "kendall", 0.5, 0.4, 0.6, 9), strict=True))
"""One row of AGREEMENT."""


def read_csv(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_plots_hold_what_dvc_draws(full: Path) -> None:
    make(full)
    plots = full / "reports" / "plots"
    assert read_csv(plots / "finetune" / "all.csv")[1] == {"step": "20", "loss": "1.0", "validation": "0.4"}
    assert read_csv(plots / "finetune" / "none.csv") == []
    points = read_csv(plots / "calibration.csv")
    assert len(points) == 8  # every third of 24 rows, at most 10
    assert points[0] == {"corpus": "wmt17, adequacy", "language_pair": "de-en", "human": "0.0", "metric": "99.0"}
    bars = read_csv(plots / "language_pairs.csv")
    assert {row["language_pair"] for row in bars} == {"de-en", "cs-en"}
    assert read_csv(plots / "kendall.csv") == [
        {"language_pair": "cs-en", "kendall": "1.0"},
        {"language_pair": "de-en", "kendall": "0.666667"},
    ]
    undefined = next(row for row in bars if (row["metric"], row["statistic"]) == ("ter", "kendall"))
    assert (undefined["value"], undefined["low"]) == ("nan", "nan")
    assert sorted(file.stem for file in (plots / "signals").iterdir()) == sorted(
        SIGNALS["bleu"] + SIGNALS["backtranslation"]
    )
    bleu = read_csv(plots / "signals" / "bleu.csv")
    assert [(row["value"], row["share"]) for row in bleu] == [
        ("0.125", "0.25"),
        ("0.375", "0.25"),
        ("0.625", "0.25"),
        ("0.875", "0.25"),
    ]


def test_corrected_p_values_are_shown_where_evaluate_has_them(full: Path) -> None:
    assert "p, corrected" not in make(full)
    file = full / "evaluate" / "significance.json"
    records = json.loads(file.read_text())
    plain = make(full)
    for record in records:
        record |= {"p_value": 0.0123, "p_value_holm": 0.0456}
    write_json(file, records)
    page = make(full)
    assert "p, corrected" not in plain and page.count("p, corrected") == 2
    assert page.count("p = 0.012") == page.count('<td class="n">p = 0.046</td>') == len(records)
    assert "p = 0.046 (corrected)" in (full / "reports" / "headline.txt").read_text(encoding="utf-8")
    gains = json.loads((full / "reports" / "metrics.json").read_text())["gain_of_pretraining"]["wmt17"]["adequacy"]
    assert (gains["bleurt/all"]["p_value"], gains["bleurt/all"]["p_value_holm"]) == (0.0123, 0.0456)


def test_pivots_are_named_by_their_key_in_the_models_or_written_out(full: Path) -> None:
    by_key = PARAMS_FILE.replace("pivots: {it: {to: a}, es: {to: b}}", "pivots: pair").replace(
        "  local:\n", "  local:\n    models: {pair: {it: {to: a}, es: {to: b}}}\n"
    )
    assert "backtranslation es candidate reference" in make(full, params_file=by_key)


def test_the_worst_disagreement_comes_first() -> None:
    rows = pandas.DataFrame(ROWS)
    placed = places(rows.assign(human=rows["score"], metric=rows["rating_id"].map(SCORES["bleurt/all"])))
    first, *_ = worst(placed, 2, kind=True)
    assert (first["candidate"], first["human_place"], first["metric_place"], first["gap"]) == (HOSTILE, 0, 100, 100)
    harsh = worst(placed, 2, kind=False)
    assert len(harsh) == 2 and harsh[0]["gap"] == pytest.approx(-100 / 11)


def test_a_row_that_is_alone_in_its_language_pair_stands_in_the_middle() -> None:
    placed = places(
        pandas.DataFrame({"language_pair": ["a", "b", "b"], "human": [1.0, 2.0, 2.0], "metric": [9.0, 1, 3]})
    )
    assert placed["human_place"].tolist() == [50, 50, 50]
    assert placed["metric_place"].tolist() == [50, 0, 100]


@pytest.mark.parametrize("absent", [field.name for field in fields(Folders)])
def test_a_stage_that_has_not_run_is_named(full: Path, absent: str) -> None:
    shutil.rmtree(full / absent)
    page = make(full)
    notice = re.search(r"Not everything has run\.</b>(.*?)</p>", page, re.DOTALL)
    assert notice is not None and f"{absent}: " in notice[1]


def test_with_nothing_at_all_there_is_still_a_report(tmp_path: Path) -> None:
    page = make(tmp_path)
    assert page.count("Nothing was evaluated.") == 1
    assert "No training run was found." in page
    found = json.loads((tmp_path / "reports" / "metrics.json").read_text())
    assert found == {"agreement": {}, "gain_of_pretraining": {}, "validation": {}, "rows": {}}
    assert not (tmp_path / "reports" / "plots" / "signals").exists()
    assert read_csv(tmp_path / "reports" / "plots" / "calibration.csv") == []


def test_without_a_trained_metric_baselines_are_still_shown(full: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for metric in ("bleurt/all", "bleurt/none"):
        monkeypatch.delitem(SCORES, metric)
    shutil.rmtree(full / "evaluate")
    write_evaluation(full / "evaluate")
    page = make(full)
    assert "No trained metric was evaluated." in page and "sentbleu" in page


def test_the_headline_says_where_pre_training_went_on_from(full: Path) -> None:
    sentence = "Its pre-training went on from bundled:pretrained, which had learned from other pairs before."
    assert sentence not in make(full)
    warm = PARAMS_FILE.replace("{steps: 5}}", '{steps: 5}, continue_from: "bundled:pretrained@2a327c09"}')
    assert sentence in make(full, params_file=warm)
    assert sentence in (full / "reports" / "headline.txt").read_text(encoding="utf-8")


def test_damaged_results_are_refused(full: Path) -> None:
    (full / "evaluate" / "significance.json").write_text('[{"metric": ')
    with pytest.raises(InputError, match=r"significance.json: not valid JSON"):
        make(full)


def test_the_headline_is_printed_again_without_making_the_report(
    full: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make(full)
    shutil.rmtree(full / "evaluate")
    monkeypatch.setattr(sys, "argv", ["report", "--print", "--out", str(full / "reports")])
    stage.main()
    printed = capsys.readouterr().out
    assert printed.rstrip().endswith(f"Report: {full / 'reports' / 'report.html'}")
    # The order of the table: trained metrics first, then baselines, the undefined one last.
    names = re.findall(r"^(\S+) +(?:\d|-|undefined)", printed, re.MULTILINE)
    assert names == ["bleurt/all", "bleurt/none", "sentbleu", "ter"]
    assert re.search(r"^bleurt/all +83\.3 \(", printed, re.MULTILINE)
    assert "wmt17, adequacy: agreement with people x 100 on 24 rated segments, average of 2 language pairs" in printed


def test_no_report_to_print_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no report here yet"):
        show(tmp_path)


def test_params_must_be_positive() -> None:
    with pytest.raises(ParamsError, match=r"report\.worst: must be at least 1, not 0"):
        from_mapping({"worst": 0, "scatter_points": 10, "signal_bins": 4}, ReportParams, "report")


def test_ticks_are_round_and_inside() -> None:
    assert ticks(0.0, 1.0) == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert ticks(-3.1, 0.0, 3) == [-3.0, -2.0, -1.0, 0.0]
    assert ticks(0.0, 2000.0, 4) == [0.0, 500.0, 1000.0, 1500.0, 2000.0]
    assert ticks(2.0, 2.0) == [2.0]
