"""Tasks, variants, scaling and the multi-task loss, by numbers that can be checked by hand."""

import math

import numpy
import pytest
import torch

from pipeline.core.errors import ParamsError
from pipeline.metric.tasks import TASKS, fit_scaling, multitask_loss, tasks_of

GAMMAS = {"bleu": 1.0, "rouge": 2.0, "bertscore": 1.0, "backtranslation": 0.5, "entailment": 3.0, "flag": 1.0}


def test_nine_tasks_in_six_groups_with_sixteen_columns() -> None:
    assert len(TASKS) == 9
    assert len({task.group for task in TASKS}) == 6
    assert sum(len(task.columns) for task in TASKS) == 16


def test_variants_pick_groups() -> None:
    assert tasks_of("all") == TASKS
    assert tasks_of("none") == ()
    assert {task.group for task in tasks_of("only_backtranslation")} == {"backtranslation"}
    assert "entailment" not in {task.group for task in tasks_of("no_entailment")}
    assert len(tasks_of("no_backtranslation")) == 5


@pytest.mark.parametrize("variant", ["", "onlybleu", "only_blue", "without_bleu"])
def test_an_unknown_variant_is_named(variant: str) -> None:
    with pytest.raises(ParamsError, match="is not all, none, only_GROUP"):
        tasks_of(variant)


def test_loss_is_squared_error_over_dimension_times_gamma() -> None:
    tasks = tasks_of("only_rouge")
    predicted = torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]])
    targets = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 3.0]])
    # rows: (0 + 4 + 9) / 3 and (0 + 0 + 9) / 3; mean 11 / 3; gamma 2
    assert float(multitask_loss(predicted, targets, tasks, GAMMAS)) == pytest.approx(22 / 3)


def test_loss_of_a_multiclass_task_takes_soft_targets() -> None:
    tasks = tasks_of("only_flag")
    value = multitask_loss(torch.zeros(1, 2), torch.tensor([[0.25, 0.75]]), tasks, GAMMAS)
    assert float(value) == pytest.approx(math.log(2))


def test_only_regression_columns_are_standardised() -> None:
    tasks = [task for task in TASKS if task.group in ("bleu", "flag")]
    scaling = fit_scaling(numpy.array([[1.0, 0.0, 1.0], [3.0, 1.0, 0.0]]), tasks, standardise=True)
    assert scaling.mean == (2.0, 0.0, 0.0)
    assert scaling.deviation == (1.0, 1.0, 1.0)


def test_a_constant_column_keeps_its_scale() -> None:
    scaling = fit_scaling(numpy.full((4, 1), 0.5), tasks_of("only_bleu"), standardise=True)
    assert scaling == fit_scaling(numpy.full((4, 1), 0.5), tasks_of("only_bleu"), True)
    assert scaling.mean == (0.5,) and scaling.deviation == (1.0,)
