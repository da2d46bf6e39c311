"""The loop: the schedule's shape, the same weights after a kill, and the best checkpoint kept."""

import dataclasses
import errno
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest
import torch

from pipeline.core import kernels, runtime
from pipeline.core.errors import BleurtError, ParamsError, StorageError
from pipeline.core.modules import ROOT
from pipeline.core.params import from_mapping
from pipeline.training.loop import Group, fit, update
from pipeline.training.schedule import Schedule


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
    assert history.points == fit(network(), loss, rows_at, schedule(11), tmp_path / "again.pt").points


def test_a_run_ends_with_the_same_weights_by_either_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In float32; the two take sums in another order, so the last digits differ."""
    monkeypatch.setattr(runtime, "precision", lambda **_: "float32")
    ends = []
    for library in kernels.LIBRARIES:
        monkeypatch.setenv("BLEURT_KERNELS", library)
        ends.append(network())
        fit(ends[-1], loss, rows_at, schedule(11), tmp_path / f"{library}.pt", evaluate=lambda model: 0.0)
    for one, other in zip(ends[0].parameters(), ends[1].parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_bf16_stays_with_its_own_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under autocast nothing goes through `pipeline.core.kernels`; without it, each of the two layers does."""
    monkeypatch.setenv("BLEURT_KERNELS", "onednn")
    calls = []
    real = kernels._Product.apply
    monkeypatch.setattr(kernels._Product, "apply", lambda *given: calls.append(1) or real(*given))
    for precision, expected in (("bf16", 0), ("float32", 2)):
        monkeypatch.setattr(runtime, "precision", lambda *, training=False, found=precision: found)
        model = network()
        update(model, torch.optim.SGD(_with_rates(model)), loss, [1, 2], schedule(4), 0)
        assert len(calls) == expected


def _with_rates(model: torch.nn.Module) -> list[dict[str, object]]:
    return [{"params": list(model.parameters()), "rate": 0.1, "lr": 0.1}]


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


@pytest.mark.parametrize(("count", "size"), [(32, 1), (32, 3), (32, 5), (5, 4), (2, 4)])
def test_every_row_counts_the_same_however_many_processes(count: int, size: int) -> None:
    rows = list(range(count))
    groups = [Group(rank, size) for rank in range(size)]
    means = [sum(group.share(rows)) / len(group.share(rows)) * group.weight(rows) for group in groups]
    assert sum(means) / size == pytest.approx(sum(rows) / count)


def test_a_weight_scales_the_gradient_and_not_the_loss() -> None:
    gradients = []
    for weight in (1.0, 0.5):
        model = torch.nn.Linear(4, 1)
        torch.nn.init.ones_(model.weight)
        torch.nn.init.ones_(model.bias)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        optimizer.param_groups[0]["rate"] = 1.0
        before = model.weight.detach().clone()
        last = dataclasses.replace(schedule(2), clip_norm=1e9)
        found = update(model, optimizer, loss, [0, 1], last, 0, weight)
        gradients.append((before - model.weight.detach(), found))
    assert torch.allclose(gradients[0][0], 2 * gradients[1][0]) and gradients[0][0].any()


def test_a_score_that_is_undefined_is_never_the_best(tmp_path: Path) -> None:
    scores = iter([math.nan, -8.0, math.nan])
    history = fit(network(), loss, rows_at, schedule(6), tmp_path / "s.pt", evaluate=lambda model: next(scores))
    assert (history.best_step, history.best_score) == (4, -8.0)
    assert [point.get("validation") for point in history.points] == [None, -8.0, None]


def test_the_last_weights_stay_where_no_score_is_defined(tmp_path: Path) -> None:
    plain, watched = network(), network()
    fit(plain, loss, rows_at, schedule(6), tmp_path / "plain.pt")
    history = fit(watched, loss, rows_at, schedule(6), tmp_path / "s.pt", evaluate=lambda model: math.nan)
    assert torch.equal(watched[0].weight, plain[0].weight)
    assert (history.best_step, history.best_score) == (6, -math.inf)


def test_a_loss_that_is_not_a_number_ends_the_run(tmp_path: Path) -> None:
    def broken(model: torch.nn.Module, rows: list[int]) -> torch.Tensor:
        return loss(model, rows) * (math.inf if rows == rows_at(4) else 1.0)

    with pytest.raises(BleurtError, match=r"^training diverged at step 5 .*; lower the learning rate\.$"):
        fit(network(), broken, rows_at, schedule(6), tmp_path / "s.pt")


def test_a_full_disk_is_one_sentence_and_leaves_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(state: object, stream: IO[bytes]) -> None:
        stream.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(torch, "save", cut)
    with pytest.raises(StorageError, match=r"s\.pt: could not be written, the disk is full\.$"):
        fit(network(), loss, rows_at, schedule(6), tmp_path / "s.pt")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("steps", 0, "be at least 1, not 0"),
        ("evaluate_every", 0, "be at least 1, not 0"),
        ("save_every", -1, "be at least 1, not -1"),
        ("learning_rate", 0.0, "be above 0, not 0.0"),
        ("layer_decay", 0.0, "be above 0, not 0.0"),
        ("layer_decay", 1.5, "be at most 1, not 1.5"),
        ("weight_decay", -0.1, "be at least 0, not -0.1"),
        ("warmup_share", 1.1, "be at most 1, not 1.1"),
        ("clip_norm", 0.0, "be above 0, not 0.0"),
    ],
)
def test_a_schedule_out_of_range_is_refused_by_key(name: str, value: float, rule: str) -> None:
    values = dataclasses.asdict(schedule(6))
    assert from_mapping(values, Schedule, "pretrain.schedule") == schedule(6)
    with pytest.raises(ParamsError) as caught:
        from_mapping(values | {name: value}, Schedule, "pretrain.schedule")
    assert str(caught.value) == f"pretrain.schedule.{name}: must {rule}."


def test_each_process_draws_its_own_dropout_and_the_first_draws_that_of_a_single_one() -> None:
    plan = schedule(100)
    assert [plan.dropout_seed(step, 0) for step in (0, 5)] == [7 * 1_000_003, 7 * 1_000_003 + 5]
    seeds = {plan.dropout_seed(step, rank) for step in range(100) for rank in range(8)}
    assert len(seeds) == 800 and all(0 <= seed < 2**63 for seed in seeds)

    def dropped(rank: int) -> torch.Tensor:
        model, found = torch.nn.Dropout(0.5), list[torch.Tensor]()
        weight = torch.nn.Parameter(torch.ones(64))

        def watched(_: torch.nn.Module, rows: list[int]) -> torch.Tensor:
            found.append(model(weight))
            return found[-1].sum()

        optimizer = torch.optim.SGD([{"params": [weight], "rate": 0.1}], lr=0.1)
        update(model, optimizer, watched, [0], plan, 3, rank=rank)
        return found[0].detach()

    assert torch.equal(dropped(0), dropped(0)) and torch.equal(dropped(1), dropped(1))
    assert not torch.equal(dropped(0), dropped(1)) and not torch.equal(dropped(1), dropped(2))


SCRIPT = """
import sys
from pathlib import Path
import torch
from pipeline.training.loop import fit, process_group
from test_loop import INPUTS, rows_at, schedule

masks = []

def loss(model, rows):
    masks.append(torch.nn.functional.dropout(torch.ones(64)))
    return model(INPUTS[rows]).square().mean()

with process_group() as group:
    fit(torch.nn.Linear(4, 1), loss, rows_at, schedule(2), Path(sys.argv[1]) / "state.pt", group=group)
    torch.save(masks, Path(sys.argv[1]) / f"{group.rank}.pt")
"""


def test_two_processes_of_torchrun_draw_different_dropout(tmp_path: Path) -> None:
    (tmp_path / "draw.py").write_text(SCRIPT, encoding="utf-8")
    own = {"PYTHONPATH": f"{ROOT}{os.pathsep}{Path(__file__).parent}", "OMP_NUM_THREADS": "1", "BLEURT_DEVICE": "cpu"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    subprocess.run([*command, tmp_path / "draw.py", tmp_path], env={**os.environ, **own}, check=True)
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    assert len(first) == len(second) == 2
    assert not any(torch.equal(one, other) for one, other in zip(first, second, strict=True))
    torch.manual_seed(schedule(2).dropout_seed(0, 0))
    assert torch.equal(first[0], torch.nn.functional.dropout(torch.ones(64)))
