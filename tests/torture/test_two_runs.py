"""Two runs of one stage at once in one working copy: the second says so in one sentence, the first ends as alone."""

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from torture.stand import Run, Stage, Stand, content, some


def half_way(stand: Stand, folder: Path, stage: Stage) -> Run:
    """A run of `stage` that has done half of its work, and waits."""
    run = stand.forge.start(folder, stage, pause_at=len(stage.changes) // 2)
    deadline = time.monotonic() + 300
    while not run.paused:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return run


@pytest.mark.parametrize("name", some("extract", "pretrain@all", "label@entailment", "collect", "evaluate", "report"))
def test_a_second_run_is_told_of_the_first(stand: Stand, copy: Callable[[], Path], name: str) -> None:
    folder, stage = copy(), stand.stages[name]
    first = half_way(stand, folder, stage)
    second = stand.forge.run(folder, stage)
    first.go_on()
    ended = first.wait()
    assert (second.code, ended.code) == (2, 0), f"{second.said}\n{ended.said[-3000:]}"
    (sentence,) = second.sentences
    assert sentence.endswith(f": another run (process {first.pid}) is at work on it; let that end first.")
    assert content(folder / stage.out) == stand.whole(stage)


def test_runs_that_would_share_unfinished_work_are_told_too(stand: Stand, copy: Callable[[], Path]) -> None:
    folder, stage = copy(), stand.stages["label@bleu"]
    elsewhere = dataclasses.replace(stage, words=(*stage.words[:-1], "elsewhere/bleu"))
    first = half_way(stand, folder, stage)
    second = stand.forge.run(folder, elsewhere)
    first.go_on()
    assert (second.code, first.wait().code) == (2, 0)
    assert second.sentences[0].startswith("error: .work/label/bleu: another run (process ")


def test_stages_beside_each_other_do_not_disturb(stand: Stand, copy: Callable[[], Path]) -> None:
    folder, one, other = copy(), stand.stages["label@bleu"], stand.stages["label@flag"]
    first = half_way(stand, folder, one)
    second = stand.forge.run(folder, other)
    first.go_on()
    assert (second.code, first.wait().code) == (0, 0), second.said
    assert [content(folder / stage.out) for stage in (one, other)] == [stand.whole(one), stand.whole(other)]
