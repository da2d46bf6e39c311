"""DVC's queue after a worker was killed: its experiment counts as failed, the others go on, and DVC still answers."""

import json
import os
import shutil
import signal
import sys
import time
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
go = pathlib.Path(FOLDER, "go")
pathlib.Path(FOLDER, "started").touch()
while not go.exists():
    time.sleep(0.1)
pathlib.Path("made.txt").write_text("made")
"""


def wait_for(condition: object, seconds: float = 200.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.2)


def states(folder: Path) -> dict[str, str]:
    """Name -> state of every experiment, from `dvc exp show`."""
    (baseline,) = [one for one in json.loads(done(folder, "dvc", "exp", "show", "--json")) if one["rev"] != "workspace"]
    found = {}
    for one in baseline["experiments"] or []:
        executor = one["executor"] or {}
        last = one["revs"][0]
        found[last["name"]] = "failed" if last["error"] else (executor.get("state") or "")
    return found


def kill_worker(folder: Path) -> None:
    """SIGKILL to the worker of this queue, and to all that it started."""
    for process in psutil.process_iter(["cmdline", "cwd"]):
        words = process.info["cmdline"] or []
        if "queue-worker" in words and process.info["cwd"] and Path(process.info["cwd"]).is_relative_to(folder):
            for one in [*process.children(recursive=True), process]:
                os.kill(one.pid, signal.SIGKILL)


@pytest.mark.skipif(not os.environ.get("BLEURT_TEST_QUEUE"), reason="takes minutes: BLEURT_TEST_QUEUE=1 runs it")
def test_the_queue_goes_on_after_a_worker_was_killed(tmp_path: Path) -> None:
    (tmp_path / "dvc.yaml").write_text(STAGES, encoding="utf-8")
    (tmp_path / "wait.py").write_text(WAIT.replace("FOLDER", repr(str(tmp_path))), encoding="utf-8")
    (tmp_path / "params.yaml").write_text("x: 0\n", encoding="utf-8")
    (tmp_path / ".gitignore").write_text("/started\n/go\n", encoding="utf-8")
    done(tmp_path, "git", "init", "-q", ".")
    for key, value in (("user.name", "test"), ("user.email", "test@example.org")):
        done(tmp_path, "git", "config", key, value)
    done(tmp_path, "dvc", "init", "-q")
    done(tmp_path, "git", "add", ".")
    done(tmp_path, "git", "commit", "-q", "-m", "start")
    done(tmp_path, "dvc", "exp", "run", "--queue", "-n", "first", "-S", "x=1")
    done(tmp_path, "dvc", "exp", "run", "--queue", "-n", "second", "-S", "x=2")
    done(tmp_path, "dvc", "queue", "start")
    wait_for((tmp_path / "started").exists)
    kill_worker(tmp_path)
    for folder in (tmp_path / ".dvc" / "tmp" / "exps").glob("tmp*"):  # as if it was killed before it had its folder
        shutil.rmtree(folder)
    assert run(tmp_path, "dvc", "exp", "show").returncode != 0
    told = done(tmp_path, sys.executable, str(ROOT / "pipeline" / "report" / "orphans.py")).splitlines()
    assert told[-1] == "queue: 1 experiments without a worker" and told[0].startswith(("first: ", "second: "))
    assert sorted(states(tmp_path).values()) == ["Queued", "failed"] or sorted(
        state.lower() for state in states(tmp_path).values()
    ) == ["failed", "queued"]
    (tmp_path / "go").touch()
    done(tmp_path, "dvc", "queue", "start")
    wait_for(lambda: "Success" in done(tmp_path, "dvc", "queue", "status"))
    assert "Running" not in done(tmp_path, "dvc", "queue", "status")
