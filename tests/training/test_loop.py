"""The loop: the schedule's shape, the same weights after a kill, and the best checkpoint kept."""

from pathlib import Path

import pytest
import torch

from pipeline.training.loop import Group, Schedule, fit


def schedule(steps: int) -> Schedule:
    return Schedule(
        steps=steps,
        learning_rate=0.05,
        layer_decay=1.0,
        weight_decay=0.01,
        warmup_share=0.25,
        clip_norm=1.0,
        evaluate_every=2,
        save_every=3,
        seed=7,
    )


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1))


INPUTS = torch.arange(40.0).reshape(10, 4) / 40
TARGETS = INPUTS.sum(1, keepdim=True)


def loss(model: torch.nn.Module, rows: list[int]) -> torch.Tensor:
    return torch.nn.functional.mse_loss(model(INPUTS[rows]), TARGETS[rows])


def rows_at(step: int) -> list[int]:
    return [step % 10, (3 * step + 1) % 10]


def test_rate_rises_over_the_warmup_and_falls_to_the_end() -> None:
    factors = [schedule(8).factor(step) for step in range(8)]
    assert factors[:2] == [0.5, 1.0] and factors[2:] == sorted(factors[2:], reverse=True)
    assert factors[-1] == pytest.approx(1 / 7)


def test_a_killed_run_ends_with_the_weights_of_one_that_was_not(tmp_path: Path) -> None:
    whole = network()
    fit(whole, loss, rows_at, schedule(11), tmp_path / "whole.pt")

    def killed_at_seven(step: int) -> list[int]:
        if step == 7:
            raise KeyboardInterrupt
        return rows_at(step)

    broken = network()
    with pytest.raises(KeyboardInterrupt):
        fit(broken, loss, killed_at_seven, schedule(11), tmp_path / "broken.pt")
    resumed = network()
    history = fit(resumed, loss, rows_at, schedule(11), tmp_path / "broken.pt")
    for name, weight in whole.state_dict().items():
        assert torch.equal(weight, resumed.state_dict()[name])
    assert [point["step"] for point in history.points] == [2, 4, 6, 8, 10, 11]


def test_the_best_validation_score_wins_over_the_last(tmp_path: Path) -> None:
    model, scores, seen = network(), iter([0.1, 0.9, 0.3]), []

    def evaluate(model: torch.nn.Module) -> float:
        seen.append(model[0].weight.detach().clone())
        return next(scores)

    history = fit(model, loss, rows_at, schedule(6), tmp_path / "s.pt", evaluate=evaluate)
    assert (history.best_step, history.best_score) == (4, 0.9)
    assert torch.equal(model[0].weight, seen[1])
    assert not torch.equal(model[0].weight, seen[2])


def test_processes_share_a_batch_and_none_goes_without() -> None:
    assert [Group(rank, 3).share([1, 2, 3, 4]) for rank in range(3)] == [[1, 4], [2], [3]]
    assert [Group(rank, 3).share([7]) for rank in range(3)] == [[7], [7], [7]]
