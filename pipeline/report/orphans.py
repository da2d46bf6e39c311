"""Settle experiments of DVC's queue whose worker was killed: they count as failed, and the rest of the queue goes on.

    python -m pipeline.report.orphans        (make queue-clean)

DVC (3.67) takes such an experiment for running for ever, and `dvc exp show` fails if the worker was killed while it
prepared the experiment's folder. What is left of its processes is killed, and its folder is removed. Experiments whose
worker lives are left alone.
"""

import contextlib
import hashlib
import os
import shutil
import signal
from pathlib import Path
from typing import Any

from pipeline.core.errors import BleurtError, InputError
from pipeline.core.runtime import run_main

ANSWER_SECONDS = 30.0
"""A worker that lives answers within this time, also on a busy machine."""


def main() -> None:
    """Settle the orphans of the project in this folder and name them."""
    from dvc.exceptions import NotDvcRepoError
    from dvc.repo import Repo

    try:
        with Repo() as repo:
            settled = settle(repo.experiments.celery_queue)
    except NotDvcRepoError as error:
        raise InputError("not inside a DVC project", file=Path.cwd()) from error
    for name in settled:
        print(f"{name}: its worker was killed; it counts as failed, queue it again")
    print(f"queue: {len(settled)} experiments without a worker")


def settle(queue: Any) -> list[str]:
    """Mark every active experiment of `queue` that no living worker has as failed; their names."""
    held = _held(queue)
    names = list[str]()
    for message, entry in list(queue._iter_processed()):
        task = message.headers["id"]
        if task in held or queue.celery.AsyncResult(task).ready():
            continue
        _end_processes(queue, entry.stash_rev)
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # not written yet
            folder = Path(queue._load_info(entry.stash_rev).root_dir)
            if folder.is_relative_to(Path(queue.repo.tmp_dir, "exps")):
                shutil.rmtree(folder, ignore_errors=True)
        queue.celery.backend.mark_as_failure(task, None)
        names.append(entry.name or entry.stash_rev[:7])
    return names


def _held(queue: Any) -> set[str]:
    """Identifiers of the tasks that living workers have; a BleurtError if one does not say what it has."""
    import psutil

    name = f"dvc-exp-{hashlib.sha256(queue.wdir.encode()).hexdigest()[:6]}-"  # as dvc names the workers of this project
    workers = {
        word
        for process in psutil.process_iter(["cmdline"])
        for word in process.info["cmdline"] or []
        if word.startswith(name) and "queue-worker" in process.info["cmdline"]
    }
    if not workers:
        return set()
    answers = queue.celery.control.inspect(timeout=ANSWER_SECONDS, limit=len(workers)).active() or {}
    if silent := sorted(workers - answers.keys()):
        raise BleurtError(f"the worker {silent[0]} of DVC's queue does not answer; try again when it has less to do.")
    return {task["id"] for tasks in answers.values() for task in tasks}


def _end_processes(queue: Any, revision: str) -> None:
    """Kill the experiment's process, which may live on after its worker, and the commands that it started."""
    import psutil

    found = queue.proc.get(revision)
    if found is None or found.returncode is not None:
        return
    with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
        process = psutil.Process(found.pid)
        if "exec-run" in process.cmdline():  # the number may be another process's by now
            for one in [*process.children(recursive=True), process]:
                os.kill(one.pid, signal.SIGKILL)


if __name__ == "__main__":
    run_main(main)
