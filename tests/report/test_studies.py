"""Studies: experiments that differ in only one setting, their curves, sentences and page."""

import copy
import csv
import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.core.errors import InputError
from pipeline.report.experiments import ablation, read_runs, settings, studies
from pipeline.report.studies import page, write_studies
from pipeline.report.study_charts import ablated, charts, drift, learning, seeds

PARAMS: dict[str, Any] = {
    "profile": "small",
    "variants": ["all", "none"],
    "collect": {"drift": {"train_alpha": 0.0, "test_alpha": 0.0}},
    "finetune": {"ratings": None, "schedule": {"seed": 1}},
    "report": {"worst": 5},
    "profiles": {"small": {"finetune": {"schedule": {"steps": 40}}}, "other": {"finetune": {}}},
}


def experiment(name: str, ours: float, plain: float, **changes: Any) -> dict[str, Any]:
    """One revision as `dvc exp show --json` has it; `changes` are dotted keys with __ for the dot."""
    params = copy.deepcopy(PARAMS)
    for key, value in changes.items():
        *parents, last = key.split("__")
        place = params
        for parent in parents:
            place = place[parent]
        place[last] = value
    metrics = {
        "bleurt/all": {"kendall": ours, "pearson": 0.7},
        "bleurt/none": {"kendall": plain, "pearson": 0.6},
        "ter": {"kendall": None, "pearson": None},
    }
    data = {
        "params": {"params.yaml": {"data": params}},
        "metrics": {"reports/metrics.json": {"data": {"agreement": {"wmt17": {"adequacy": metrics}}}}},
    }
    return {"rev": "0123456789", "name": name, "data": data, "experiments": None}


def with_variants(name: str, **kendall: float) -> dict[str, Any]:
    """An experiment of other variants, each with its Kendall."""
    run = experiment(name, 0.5, 0.4, variants=list(kendall))
    metrics = {f"bleurt/{variant}": {"kendall": value, "pearson": 0.7} for variant, value in kendall.items()}
    run["data"]["metrics"]["reports/metrics.json"]["data"]["agreement"]["wmt17"]["adequacy"] = metrics
    return run


def test_ablations_are_the_variants_of_runs_that_are_alike_in_all_else() -> None:
    alike = [
        experiment("both", 0.52, 0.48),
        with_variants("a", only_bleu=0.49, only_rouge=0.47),
        with_variants("b", no_bleu=0.505, none=0.48),
    ]
    other = experiment("more", 0.53, 0.49, finetune__ratings=100)
    other["data"]["params"]["params.yaml"]["data"]["variants"] = ["all"]
    runs = read_runs(shown(*alike, other), "x")
    found = ablation(runs)
    assert found is not None
    lines = found.line("wmt17", "adequacy")
    assert {name.removeprefix("bleurt/"): round(kendall) for name, (kendall, _) in lines.items()} == {
        "all": 52, "none": 48, "only_bleu": 49, "only_rouge": 47, "no_bleu": 50,
    }  # fmt: skip
    assert ablated(lines) == "Alone, over no pre-training: bleu +1.0, rouge −1.0; left out: bleu −1.5."
    (study,) = studies(runs)
    assert study.keys == ("finetune.ratings",)
    assert [y for _, y in study.line(("wmt17", "adequacy", "bleurt/all"))] == pytest.approx([53, 52])
    text = page(runs, [], found)
    assert "paper, figure 4" in text and "only_rouge" in text and "49.0 / 70.0" in text
    assert ablation(read_runs(shown(experiment("both", 0.52, 0.48)), "x")) is None
    apart = with_variants("c", only_bleu=0.49)
    apart["data"]["params"]["params.yaml"]["data"]["finetune"]["ratings"] = 7
    lonely = ablation(read_runs(shown(experiment("both", 0.52, 0.48), apart), "x"))
    assert lonely is not None and list(lonely.runs) == ["bleurt/only_bleu"]
    assert ablated(lonely.line("wmt17", "adequacy")) == "No bleurt/none and bleurt/all was run to compare with."


def test_sets_of_the_same_size_are_studies_of_their_own(tmp_path: Path) -> None:
    corpora = [{"split": split, "test_fraction": share} for split in ("by_system", "by_input") for share in (0.5, 0.8)]
    runs = read_runs(
        shown(*(experiment(f"r{i}", 0.5, 0.4 + i / 100, collect__corpora=[one]) for i, one in enumerate(corpora))), "x"
    )
    found = [study for study in studies(runs) if study.keys == ("collect.corpora.0.test_fraction",)]
    assert [dict(study.where) for study in found] == [
        {"collect.corpora.0.split": "by_system"}, {"collect.corpora.0.split": "by_input"},
    ]  # fmt: skip
    assert [study.values for study in found] == [(0.5, 0.8), (0.5, 0.8)]
    text = page(runs, found)
    assert "paper, figure 3" in text and "collect.corpora.0.split=by_input" in text


def from_encoder(name: str, encoder: str, share: float, **kendall: float) -> dict[str, Any]:
    """An experiment that started from `encoder` and left `share` of a corpus for the test."""
    run = with_variants(name, **kendall)
    params = run["data"]["params"]["params.yaml"]["data"]
    params["pretrain"] = {"encoder": encoder}
    params["collect"]["corpora"] = [{"test_fraction": share}]
    return run


def test_encoders_are_lines_of_one_chart() -> None:
    runs = read_runs(
        shown(
            from_encoder("a", "bert", 0.5, all=0.4, none=0.2),
            from_encoder("b", "bert", 0.8, all=0.3, none=0.1),
            from_encoder("c", "models/wmt", 0.5, none=0.45),
            from_encoder("d", "models/wmt", 0.8, none=0.42),
        ),
        "x",
    )
    found = {study.keys: study for study in studies(runs)}
    study = found[("collect.corpora.0.test_fraction",)]
    lines = {cell[2]: [y for _, y in study.line(cell)] for cell in study.runs[0].kendall}
    assert lines == {
        "bleurt/all from bert": pytest.approx([40, 30]),
        "bleurt/none from bert": pytest.approx([20, 10]),
        "bleurt/none from models/wmt": pytest.approx([45, 42]),
    }
    assert found[("pretrain.encoder",)].line(("wmt17", "adequacy", "bleurt/none"))[1][0] == "models/wmt"
    text = page(runs, list(found.values()))
    assert "bleurt/none from models/wmt goes from 45.0 at 0.5 to 42.0 at 0.8" in text


def test_an_encoder_that_is_named_by_its_key_is_its_model() -> None:
    by_key = {"profile": "p", "pretrain": {"encoder": "small"}, "profiles": {"p": {"models": {"small": "package:x"}}}}
    assert settings(by_key)["pretrain.encoder"] == "package:x"
    named = {"profile": "p", "pretrain": {"encoder": "models/wmt"}, "profiles": {"p": {"models": {"small": "x"}}}}
    assert settings(named)["pretrain.encoder"] == "models/wmt"


def test_settings_without_a_line_are_no_study() -> None:
    runs = read_runs(
        shown(from_encoder("a", "bert", 0.5, only_bleu=0.4), from_encoder("b", "bert", 0.8, only_rouge=0.3)), "x"
    )
    assert studies(runs) == []


def shown(*experiments: dict[str, Any]) -> str:
    """The workspace without metrics, and a commit under which the experiments stand."""
    broken = {"params": {"params.yaml": {"data": PARAMS}}, "metrics": {"reports/metrics.json": {"error": {"msg": "x"}}}}
    ranges = [{"revs": [one], "executor": None, "name": one["name"]} for one in experiments]
    ranges.append({"revs": [{"rev": "f" * 40, "name": "failed", "data": None}], "executor": None, "name": "failed"})
    return json.dumps(
        [
            {"rev": "workspace", "name": None, "data": broken, "experiments": None},
            {"rev": "a" * 40, "name": "main", "data": None, "experiments": ranges},
        ]
    )


def test_runs_that_differ_in_one_setting_make_a_study() -> None:
    runs = read_runs(
        shown(
            experiment("b", 0.52, 0.50, finetune__schedule__seed=2),
            experiment("a", 0.50, 0.49),
            experiment("the same again", 0.1, 0.1),
            experiment("display alone", 0.50, 0.49, report__worst=9),
            experiment("few", 0.40, 0.30, finetune__ratings=10),
            experiment("fewer and another seed", 0.40, 0.30, finetune__ratings=5, finetune__schedule__seed=3),
        ),
        "test",
    )
    assert [run.name for run in runs] == ["b", "a", "display alone", "few", "fewer and another seed"]
    found = {study.keys: study for study in studies(runs)}
    assert set(found) == {("finetune.schedule.seed",), ("finetune.ratings",)}
    assert found[("finetune.schedule.seed",)].line(("wmt17", "adequacy", "bleurt/all")) == [(1, 50.0), (2, 52.0)]
    assert found[("finetune.ratings",)].values == (10, None), "all ratings come last"
    assert not found[("finetune.ratings",)].line(("wmt17", "adequacy", "ter")), "an undefined agreement is no point"


def test_the_workspace_is_no_run() -> None:
    stale = experiment("x", 0.9, 0.9, finetune__schedule__seed=9) | {"rev": "workspace"}
    text = json.dumps([stale, *json.loads(shown(experiment("a", 0.5, 0.4)))])
    assert [run.name for run in read_runs(text, "x")] == ["a"]


def test_drift_of_both_sides_is_one_study() -> None:
    runs = read_runs(
        shown(
            experiment("0", 0.5, 0.4),
            experiment("3", 0.4, 0.2, collect__drift__train_alpha=3.0, collect__drift__test_alpha=3.0),
            experiment("one side", 0.4, 0.2, collect__drift__train_alpha=3.0),
        ),
        "test",
    )
    (study,) = studies(runs)
    assert study.keys == ("collect.drift.train_alpha", "collect.drift.test_alpha")
    assert study.values == (0.0, 3.0)


@pytest.mark.parametrize(
    ("conclude", "lines", "sentence"),
    [
        (
            seeds,
            {"bleurt/all": [(1, 50.0), (2, 52.0)], "bleurt/none": [(1, 49.0), (2, 52.0)], "ter": [(1, 3.0), (2, 3.0)]},
            "Mean ± standard deviation: bleurt/all 51.0 ± 1.4 (2 seeds), bleurt/none 50.5 ± 2.1 (2 seeds). "
            "Pre-training changes it by +0.5 ± 0.7 (2 seeds).",
        ),
        (
            drift,
            {"bleurt/all": [(0.0, 50.0), (3.0, 40.0)], "ter": [(0.0, 20.0), (3.0, 5.0)]},
            "At α = 3 of the Kendall without drift remain: bleurt/all 80%, ter 25%.",
        ),
        (
            drift,
            {"bleurt/all": [(0.0, 50.0), (1.5, 40.0)], "ter": [(0.0, 20.0), (1.5, 10.0), (3.0, 5.0)]},
            "At α = 1.5 of the Kendall without drift remain: bleurt/all 80%, ter 50%.",
        ),
        (
            learning,
            {"bleurt/all": [(510, 45.0), (None, 50.0)], "bleurt/none": [(510, 40.0), (None, 51.0)]},
            "Pre-training changes Kendall by +5.0 points with 510 ratings and by −1.0 points with all ratings. "
            "bleurt/all goes from 45.0 at 510 to 50.0 at all and is best with 50.0 at all; "
            "bleurt/none goes from 40.0 at 510 to 51.0 at all and is best with 51.0 at all.",
        ),
    ],
)
def test_sentences_say_what_the_numbers_say(conclude: Any, lines: dict[str, Any], sentence: str) -> None:
    assert conclude(lines) == sentence


def test_the_page_holds_chart_table_and_sentence() -> None:
    runs = read_runs(shown(experiment("a", 0.5, 0.4), experiment("b", 0.52, 0.41, finetune__ratings=10)), "test")
    text = page(runs, studies(runs))
    assert "<svg" in text and "Learning curve" in text and "52.0 / 70.0" in text and "http" not in text


def test_named_values_stand_beside_each_other_and_not_on_an_axis() -> None:
    runs = [experiment("a", 0.5, 0.4, finetune__kind="plain"), experiment("b", 0.52, 0.41, finetune__kind="other")]
    study = studies(read_runs(shown(*runs), "test"))[0]
    (chart,) = charts(study)
    assert "<rect" in chart["chart"] and "polyline" not in chart["chart"]
    assert chart["columns"] == ["other", "plain"]
    assert chart["sentence"] == (
        "bleurt/all 52.0 with other, 50.0 with plain; bleurt/none 41.0 with other, 40.0 with plain."
    )


def test_experiments_that_differ_in_everything_are_no_study() -> None:
    runs = read_runs(shown(experiment("a", 0.5, 0.4)), "test")
    assert "No two experiments differ in only one setting." in page(runs, studies(runs))


@pytest.mark.parametrize("text", ["", "{}", '{"a": 1}', "[1]", '[{"rev": "a", "data": {"params": 1}}]'])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"stdin: is not what `dvc exp show --json` prints"):
        read_runs(text, "stdin")


def test_page_and_points_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(experiment("a", 0.5, 0.4), experiment("b", 0.52, 0.41, finetune__ratings=10))
    (tmp_path / "shown.json").write_text(text, encoding="utf-8")
    write_studies(tmp_path / "shown.json", tmp_path)
    assert capsys.readouterr().out.startswith("studies: 2 experiments, 1 studies")
    rows = list(csv.DictReader((tmp_path / "studies.csv").read_text().splitlines()))
    assert rows[0]["setting"] == "finetune.ratings"
    assert {(row["value"], row["metric"], row["kendall"]) for row in rows} == {
        ("10", "bleurt/all", "52.0"),
        ("10", "bleurt/none", "41.0"),
        ("all", "bleurt/all", "50.0"),
        ("all", "bleurt/none", "40.0"),
    }
    assert (tmp_path / "studies.html").exists()
