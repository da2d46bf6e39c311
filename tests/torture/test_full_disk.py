"""A full disk in every stage: one sentence, nothing half-written; with room the next run ends as if nothing had been.

Once Python is told from some moment on that the disk is full, whenever it opens a file or makes a folder. And once the
disk is a small file system of its own (tmpfs), so that Arrow's and Rust's writes fail too; not all may mount one.
"""

import os
import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from torture.stand import Done, Forge, Stage, Stand, content, some

NAMES = ("pretrain@all", "perturb", "report", "extract", "adapt@own", "label@entailment", "collect", "grade")
NAMES += ("finetune@all", "evaluate")
SENTENCE = re.compile(r"error: \S+: .*(the disk is full|No space left on device)")
OWN_MOUNTS = ("unshare", "--user", "--map-root-user", "--mount")
DISK_BYTES = 1 << 26


def check(stand: Stand, folder: Path, stage: Stage, done: Done, told: str) -> None:
    """What `stage` left after it met a full disk."""
    sentences = done.sentences
    assert (done.code, len(sentences)) == (2, 1) and SENTENCE.match(sentences[0]), f"{told}\n{done.said[-3000:]}"
    assert ".new" not in sentences[0] and "Traceback" not in done.said
    found, whole = content(folder / stage.out), stand.whole(stage)
    assert found == {} or (stage.kind == "report" and found.items() <= whole.items()), told


@pytest.mark.parametrize("name", some(*NAMES, quickly=3))
def test_a_disk_that_is_full_from_some_change_on_is_one_sentence(stand: Stand, tmp_path: Path, name: str) -> None:
    folder, stage = stand.copy(tmp_path / "project"), stand.stages[name]
    shutil.rmtree(folder / stage.out)
    growing = [n for n, change in enumerate(stage.changes) if change.split()[0] in ("open", "os.mkdir")]
    moment = random.Random(name).choice(growing[: 2 * len(growing) // 3])
    done = stand.forge.run(folder, stage, full_from=moment)
    check(stand, folder, stage, done, f"at {moment}, {stage.changes[moment]}")
    assert stand.forge.run(folder, stage).code == 0
    assert content(folder / stage.out) == stand.whole(stage)


@pytest.fixture(scope="module")
def mounting(stand: Stand, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forge]:
    """A forge that may mount file systems, which nobody else sees."""
    trial = [*OWN_MOUNTS, "mount", "-t", "tmpfs", "none", "/mnt"]
    may = shutil.which("unshare") and subprocess.run(trial).returncode == 0
    if not may:
        pytest.skip("this user may not mount a file system of its own")
    forge = Forge(stand.project, tmp_path_factory.mktemp("mounting"), *OWN_MOUNTS)
    yield forge
    forge.close()


def fill(folder: Path, free_bytes: int) -> None:
    """Leave so much room on the disk of `folder`."""
    found = os.statvfs(folder)
    with (folder / "ballast").open("wb") as ballast:
        left = found.f_bavail * found.f_frsize - free_bytes
        while left > 0:
            left -= ballast.write(bytes(min(left, 1 << 20)))


@pytest.mark.parametrize("name", some(*reversed(NAMES), quickly=0))
def test_a_small_disk_is_one_sentence(stand: Stand, mounting: Forge, tmp_path: Path, name: str) -> None:
    stage, place = stand.stages[name], tmp_path / "disk"
    seen = stand.copy(mounting.mount(place, DISK_BYTES) / "project")
    shutil.rmtree(seen / stage.out)
    size = sum(map(len, stand.whole(stage).values()))
    free = int(random.Random(name).random() * 0.8 * size)
    fill(seen, free)
    done = mounting.run(place / "project", stage)
    check(stand, seen, stage, done, f"{free} bytes free, {size} needed")
    (seen / "ballast").unlink()
    assert mounting.run(place / "project", stage).code == 0
    assert content(seen / stage.out) == stand.whole(stage)
