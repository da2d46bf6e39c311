"""DVC's queue with two workers, one of which is killed: its experiment counts as failed, the others go on."""

import contextlib
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from dvc_commands import done, run

from pipeline.core.modules import ROOT

STAGES = """stages:
  wait:
    cmd: python wait.py
    params: [x]
    outs: [made.txt]
"""
WAIT = """
import pathlib, time
top = pathlib.Path(FOLDER)
x = pathlib.Path("params.yaml").read_text().split()[1]
(top / f"started{x}").touch()
while not (top / "go").exists():
    time.sleep(0.1)
pathlib.Path("made.txt").write_text("made")
"""


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"after {seconds:g} seconds: {what}"
        time.sleep(0.2)


def states(project: Path) -> dict[str, str]:
    """Name -> state of every experiment, from what `dvc exp show --json` says; empty where it did not answer.

    While a worker removes the folder of an experiment that has ended, dvc 3.67 may fail, or hang without end.
    """
    try:
        answer = run(project, "dvc", "exp", "show", "--json", seconds=30.0)
    except subprocess.TimeoutExpired:
        return {}
    if answer.returncode:
        return {}
    (baseline,) = [one for one in json.loads(answer.stdout) if one["rev"] != "workspace"]
    found = {}
    for one in baseline["experiments"] or []:
        last = one["revs"][0]
        found[last["name"]] = "failed" if last["error"] else (one["executor"] or {}).get("state", "success").lower()
    return found


def kill(process: psutil.Process) -> None:
    """SIGKILL to a process and to all that it started."""
    for one in [*process.children(recursive=True), process]:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()


def processes(folder: Path, word: str) -> list[psutil.Process]:
    """Processes that were started with `word` and work in `folder` or below."""
    found = psutil.process_iter(["cmdline", "cwd"])
    mine = [one for one in found if one.info["cwd"] and Path(one.info["cwd"]).is_relative_to(folder)]
    return [one for one in mine if word in (one.info["cmdline"] or [])]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """A project with a stage that waits for a file `go`, and three experiments in its queue."""
    (tmp_path / "dvc.yaml").write_text(STAGES, encoding="utf-8")
    (tmp_path / "wait.py").write_text(WAIT.replace("FOLDER", repr(str(tmp_path))), encoding="utf-8")
    (tmp_path / "params.yaml").write_text("x: 0\n", encoding="utf-8")
    (tmp_path / ".gitignore").write_text("/started*\n/go\n", encoding="utf-8")
    done(tmp_path, "git", "init", "-q", ".")
    for key, value in (("user.name", "test"), ("user.email", "test@example.org")):
        done(tmp_path, "git", "config", key, value)
    done(tmp_path, "dvc", "init", "-q")
    done(tmp_path, "git", "add", ".")
    done(tmp_path, "git", "commit", "-q", "-m", "start")
    for x, name in enumerate(("one", "two", "three"), 1):
        done(tmp_path, "dvc", "exp", "run", "--queue", "-n", name, "-S", f"x={x}")
    yield tmp_path
    for process in [*processes(tmp_path, "queue-worker"), *processes(tmp_path, "exec-run")]:
        kill(process)


def test_the_queue_goes_on_after_one_of_two_workers_was_killed(project: Path) -> None:
    done(project, "dvc", "queue", "start", "-j", "2")
    wait_for(lambda: len(list(project.glob("started*"))) == 2, "two workers have not started two experiments")
    running = processes(project / ".dvc" / "tmp" / "exps", "wait.py")[0]
    folder = Path(running.cwd())
    (worker,) = [one for one in running.parents() if "queue-worker" in one.cmdline()]
    kill(worker)
    shutil.rmtree(folder)  # as if it was killed before it had its folder
    assert run(project, "dvc", "exp", "show").returncode != 0
    told = done(project, sys.executable, str(ROOT / "pipeline" / "report" / "orphans.py")).splitlines()
    killed = told[0].partition(":")[0]
    assert told[1:] == ["queue: 1 experiments without a worker"] and killed in ("one", "two", "three")
    before: dict[str, str] = {}
    after: dict[str, str] = {}

    def each_is_told() -> bool:
        before.update(states(project))
        return bool(before)

    def all_have_ended() -> bool:
        after.update(states(project))
        return bool(after) and not {"queued", "running"} & set(after.values())

    wait_for(each_is_told, "dvc does not answer", 300.0)
    assert sorted(before.values()) == ["failed", "queued", "running"] and before[killed] == "failed"
    (project / "go").touch()
    wait_for(all_have_ended, "the other worker did not go on", 300.0)
    assert sorted(after.values()) == ["failed", "success", "success"] and after[killed] == "failed"
