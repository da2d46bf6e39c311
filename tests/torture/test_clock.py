"""A clock that jumps: no output depends on the time of the day or on the times of files, and neither does resuming."""

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from torture.stand import Stand, content, some

HOUR, YEAR = 3600.0, 365 * 86400.0
JUMPS = [0.0, -HOUR, 2 * HOUR, -YEAR, -HOUR, YEAR]
FILE_TIMES = (0, 4_102_444_800)
"""1970 and 2100."""


@pytest.mark.parametrize("name", some("pretrain@all", "perturb", "extract", "finetune@all", "evaluate", quickly=1))
def test_a_killed_run_goes_on_at_another_time(stand: Stand, copy: Callable[[], Path], name: str) -> None:
    folder, stage = copy(), stand.stages[name]
    shutil.rmtree(folder / stage.out)
    moment = 2 * len(stage.changes) // 3
    assert stand.forge.run(folder, stage, kill_at=moment, clock=JUMPS).code == -signal.SIGKILL, moment
    for number, file in enumerate(sorted(file for file in folder.rglob("*") if file.is_file())):
        os.utime(file, (FILE_TIMES[number % 2],) * 2)
    done = stand.forge.run(folder, stage, clock=JUMPS)
    assert done.code == 0, done.said[-3000:]
    assert content(folder / stage.out) == stand.whole(stage)
    notes = [json.loads(line) for line in (folder / ".work" / "times.jsonl").read_text(encoding="utf-8").splitlines()]
    spent = [note[key] for note in notes for key in ("seconds", "training_seconds") if key in note]
    assert spent and all(0 <= seconds < HOUR for seconds in spent), spent
