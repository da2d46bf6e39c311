"""Tasks, variants, scaling and the multi-task loss, by numbers that can be checked by hand."""

import math

import numpy
import pytest
import torch

from pipeline.core.errors import ParamsError
from pipeline.metric.tasks import (
    Loss,
    Scaling,
    Targets,
    Task,
    chosen_signals,
    columns_of,
    fit_scaling,
    multitask_loss,
    named_signals,
    tasks_of,
)

COLUMNS = {
    "bleu": ("bleu",),
    "rouge": ("rouge_precision", "rouge_recall", "rouge_fmeasure"),
    "bertscore": ("bertscore_precision", "bertscore_recall", "bertscore_f1"),
    "backtranslation": (
        "fr_reference_candidate",
        "fr_candidate_reference",
        "de_reference_candidate",
        "de_candidate_reference",
    ),
    "entailment": ("entailment_entail", "entailment_contradict", "entailment_neutral"),
    "flag": ("flag_backtranslation", "flag_mask_fill"),
}
LOSSES = {
    "bleu": Loss.JOINT,
    "rouge": Loss.JOINT,
    "bertscore": Loss.JOINT,
    "backtranslation": Loss.EACH,
    "entailment": Loss.DISTRIBUTION,
    "flag": Loss.DISTRIBUTION,
}
GAMMAS = {"bleu": 1.0, "rouge": 2.0, "bertscore": 1.0, "backtranslation": 0.5, "entailment": 3.0, "flag": 1.0}


def tasks(variant: str) -> tuple[Task, ...]:
    return tasks_of({signal: COLUMNS[signal] for signal in chosen_signals(variant, list(COLUMNS))}, LOSSES)


def test_nine_tasks_in_six_signals_with_sixteen_columns() -> None:
    found = tasks("all")
    assert len(found) == 9
    assert len({task.signal for task in found}) == 6
    assert columns_of(found) == tuple(column for columns in COLUMNS.values() for column in columns)
    assert len(columns_of(found)) == 16


def test_variants_pick_signals() -> None:
    assert chosen_signals("all", ["b", "a"]) == ("b", "a")
    assert tasks("none") == ()
    assert {task.signal for task in tasks("only_backtranslation")} == {"backtranslation"}
    assert "entailment" not in {task.signal for task in tasks("no_entailment")}
    assert len(tasks("no_backtranslation")) == 5
    assert chosen_signals("only_word_order", ["bleu", "word_order"]) == ("word_order",)


@pytest.mark.parametrize("variant", ["", "onlybleu", "only_blue", "without_bleu"])
def test_an_unknown_variant_is_named(variant: str) -> None:
    with pytest.raises(ParamsError, match="is not all, none, only_SIGNAL or no_SIGNAL, with SIGNAL one of bleu, rouge"):
        tasks(variant)


def test_loss_is_squared_error_over_dimension_times_gamma() -> None:
    predicted = torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]])
    targets = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 3.0]])
    # rows: (0 + 4 + 9) / 3 and (0 + 0 + 9) / 3; mean 11 / 3; gamma 2
    assert float(multitask_loss(predicted, targets, tasks("only_rouge"), GAMMAS)) == pytest.approx(22 / 3)


def test_columns_learned_each_by_itself_add_up_and_are_not_divided() -> None:
    each = tasks_of({"rouge": COLUMNS["rouge"]}, {"rouge": Loss.EACH})
    value = multitask_loss(torch.zeros(1, 3), torch.tensor([[1.0, 2.0, 3.0]]), each, GAMMAS)
    assert float(value) == pytest.approx(2 * (1 + 4 + 9))


def test_loss_of_a_distribution_takes_soft_targets() -> None:
    value = multitask_loss(torch.zeros(1, 2), torch.tensor([[0.25, 0.75]]), tasks("only_flag"), GAMMAS)
    assert float(value) == pytest.approx(math.log(2))


def test_only_regression_columns_are_standardised() -> None:
    chosen = [task for task in tasks("all") if task.signal in ("bleu", "flag")]
    scaling = fit_scaling(numpy.array([[1.0, 0.0, 1.0], [3.0, 1.0, 0.0]]), chosen, standardise=True)
    assert scaling.mean == (2.0, 0.0, 0.0)
    assert scaling.deviation == (1.0, 1.0, 1.0)


def test_a_constant_column_keeps_its_scale() -> None:
    scaling = fit_scaling(numpy.full((4, 1), 0.5), tasks("only_bleu"), standardise=True)
    assert scaling.mean == (0.5,) and scaling.deviation == (1.0,)


def test_classes_become_probabilities_and_regressions_are_unscaled() -> None:
    columns = {"rouge": ["rouge_precision"], "entailment": COLUMNS["entailment"]}
    targets = Targets(tasks_of(columns, LOSSES), Scaling((0.5, 0.0, 0.0, 0.0), (0.1, 1.0, 1.0, 1.0)))
    found = named_signals([2.0, math.log(6), math.log(3), 0.0], targets)
    assert list(found) == ["rouge", "entailment"]
    assert found["rouge"] == {"rouge_precision": pytest.approx(0.7)}
    assert list(found["entailment"].values()) == pytest.approx([0.6, 0.3, 0.1])


def test_columns_learned_each_stay_one_signal() -> None:
    targets = Targets(tasks("only_backtranslation"), Scaling((-3.0,) * 4, (2.0,) * 4))
    assert named_signals([0.0, 0.5, 1.0, 1.5], targets) == {
        "backtranslation": dict(zip(COLUMNS["backtranslation"], [-3.0, -2.0, -1.0, 0.0], strict=True))
    }
