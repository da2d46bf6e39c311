"""Kills at random moments: what stands is absent, old or whole, and one more run gives what none would have changed.

    make torture KILLS=100 SEED=1

Half of the moments are changes of the disk (a file opened, a name moved: between a temporary file and its final name),
half are moments of time. Half of the runs have an output of an earlier run before them.
"""

import os
import random
import shutil
import signal
from pathlib import Path

import pytest
from torture.stand import Stage, Stand, content

KILLS = int(os.environ.get("KILLS", "5"))
SEED = int(os.environ.get("SEED", "1"))
KINDS = ("extract", "adapt", "perturb", "label", "pretrain", "collect", "grade", "finetune", "evaluate", "report")

ENDS = (-signal.SIGKILL, 0)
"""A run may end before its moment: how often training saves its state depends on the speed of the disk."""


@pytest.fixture(scope="module")
def spoiled(stand: Stand, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stand.copy(tmp_path_factory.mktemp("spoiled") / "project")


def stage_of(stand: Stand, number: int, draw: random.Random) -> Stage:
    """The kinds of stages take turns, from one that the seed draws."""
    kind = KINDS[(SEED * 5 + number) % len(KINDS)]
    return draw.choice([stage for stage in stand.stages.values() if stage.kind == kind])


def make_old(stage: Stage, folder: Path) -> dict[str, bytes]:
    """Change what an earlier run left, so that it can be told from what a new run makes."""
    for file in folder.rglob("*"):
        if file.is_file():
            file.write_bytes(file.read_bytes() + b"old")
    return content(folder)


@pytest.mark.parametrize("number", range(KILLS))
def test_a_kill_leaves_nothing_half_written_and_the_next_run_ends_as_if_it_had_not_been(
    stand: Stand, spoiled: Path, number: int
) -> None:
    draw = random.Random(f"{SEED} {number}")
    stage = stage_of(stand, number, draw)
    out, whole = spoiled / stage.out, stand.whole(stage)
    old = make_old(stage, out) if draw.random() < 0.5 else {}
    if not old:
        shutil.rmtree(out)
    if draw.random() < 0.5:
        moment = draw.randrange(len(stage.changes))
        told = f"{stage.name} at change {moment}, {stage.changes[moment]}"
        killed = stand.forge.run(spoiled, stage, kill_at=moment)
        assert killed.code in ENDS, f"{told}\n{killed.said[-3000:]}"
    else:
        seconds = draw.random() * stage.seconds
        told = f"{stage.name} after {seconds:.2f} of {stage.seconds:.2f} s"
        run = stand.forge.start(spoiled, stage)
        run.kill(seconds)
        killed = run.wait()
    found = content(out)
    if stage.kind == "report":  # other files may stand beside its own, so that it replaces file by file
        broken = [name for name, data in found.items() if data not in (old.get(name), whole.get(name))]
    else:
        broken = [] if found in ({}, old, whole) else sorted(found)
    after = stand.forge.run(spoiled, stage)
    left = sorted(set(content(out).items()) ^ set(whole.items()))
    hidden = [file for file in spoiled.rglob(".*") if file.name != ".gitkeep" and ".work" not in file.parts]
    if after.code or left or hidden:  # the next kill needs a whole project
        shutil.rmtree(out)
        shutil.copytree(stand.project / stage.out, out)
    assert (broken, after.code, [name for name, _ in left], hidden) == ([], 0, [], []), f"{told}\n{after.said[-3000:]}"


def test_a_removal_of_finished_work_that_was_killed_half_way_costs_no_later_run(stand: Stand, spoiled: Path) -> None:
    stage = stand.stages["extract"]
    removals = [n for n, change in enumerate(stage.changes) if change.startswith("os.remove part-")]
    for moment in random.Random(SEED).sample(removals, min(3, len(removals))):
        assert stand.forge.run(spoiled, stage, kill_at=moment).code == -signal.SIGKILL
        after = stand.forge.run(spoiled, stage)
        assert after.code == 0, f"at change {moment}, {stage.changes[moment]}\n{after.said[-3000:]}"
        assert content(spoiled / stage.out) == stand.whole(stage)
