"""The stand for torture: a tiny project that every stage has run in undisturbed, and copies of it to spoil."""

import dataclasses
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from dvc.repo import Repo
from dvc.utils.hydra import apply_overrides
from networkx import topological_sort
from tiny_project import ROOT, environment, make_sources

Content = dict[str, bytes]

SMALLER = (
    "adapted=[own]",
    "signals={bleu: text, entailment: entailment, flag: text}",
    "adapt.batch_segments=8",
    "evaluate.baselines=[sentbleu,rougeL,bertscore]",
    "profiles.tiny.evaluate.resamples=10",
    "profiles.tiny.evaluate.permutations=10",
    *(f"profiles.tiny.{name}.schedule.{key}={steps}" for name in ("adapt", "pretrain", "finetune")
      for key, steps in (("steps", 6), ("evaluate_every", 3), ("save_every", 2))),
)  # fmt: skip
"""Settings for `-S`: every stage, but less of everything."""

UNLIKE = ("run.html",)
"""Files that no two runs have alike: they say what a run took."""


@dataclasses.dataclass(frozen=True)
class Stage:
    """A stage as dvc.yaml has it; `seconds` and `changes` (of the disk) of its undisturbed run."""

    name: str
    words: tuple[str, ...]
    out: Path
    seconds: float = 0.0
    changes: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        return self.name.split("@")[0]


class Forge:
    """A process of `torture.forge`, whose stages start without importing anything."""

    def __init__(self, project: Path, folder: Path, *before: str) -> None:
        self.folder = folder
        path = os.pathsep.join([str(project), str(ROOT / "tests")])
        words = [*before, sys.executable, str(Path(__file__).with_name("forge.py"))]
        self.caches = [folder / name for name in ("hub", "home", "tmp", "xdg")]
        for cache in self.caches:
            cache.mkdir(exist_ok=True)
        names = ("HF_HOME", "HOME", "TMPDIR", "XDG_CACHE_HOME")
        places = dict(zip(names, map(str, self.caches), strict=True))
        own = environment(PYTHONPATH=path, PYTHONDONTWRITEBYTECODE="1", **places)
        self.process = subprocess.Popen(
            words, cwd=project, env=own, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._answer()
        self.started = 0

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the forge has ended"
        return json.loads(line)

    def _order(self, **order: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        print(json.dumps(order), file=self.process.stdin, flush=True)
        return self._answer()

    def start(self, folder: Path, stage: Stage, environment: dict[str, str] | None = None, **fault: Any) -> "Run":
        """Start `stage` in `folder`; `fault` as `torture.faults.install` has it."""
        self.started += 1
        log = self.folder / f"{self.started}.log"
        words = {"words": stage.words, "environment": environment or {}, "fault": fault}
        return Run(self, self._order(do="start", folder=str(folder), log=str(log), **words)["pid"], log)

    def mount(self, place: Path, size_bytes: int) -> Path:
        """Mount a file system of this size at `place`; the path by which it is seen from outside."""
        place.mkdir(parents=True)
        assert self._order(do="mount", place=str(place), bytes=size_bytes)["code"] == 0
        return Path(f"/proc/{self.process.pid}/root{place}")

    def run(self, folder: Path, stage: Stage, environment: dict[str, str] | None = None, **fault: Any) -> "Done":
        """Start `stage` and wait for its end."""
        return self.start(folder, stage, environment, **fault).wait()

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.kill()  # its libraries take seconds to go
        self.process.wait()


@dataclasses.dataclass(frozen=True)
class Done:
    """How a stage ended: its exit code (negative: the signal), and what it said."""

    code: int
    said: str

    @property
    def sentences(self) -> list[str]:
        """The errors that it told its user."""
        return [line for line in self.said.splitlines() if line.startswith("error: ")]


@dataclasses.dataclass(frozen=True)
class Run:
    """A stage at work."""

    forge: Forge
    pid: int
    log: Path

    def kill(self, seconds: float) -> None:
        """SIGKILL it and its workers after so many seconds; it may have ended before."""
        time.sleep(seconds)
        with suppress(ProcessLookupError):  # it has ended, or has no group of its own yet
            os.killpg(self.pid, signal.SIGKILL)

    @property
    def paused(self) -> bool:
        """Whether it has come to its pause."""
        return psutil.Process(self.pid).status() == psutil.STATUS_STOPPED

    def go_on(self) -> None:
        """End its pause."""
        os.kill(self.pid, signal.SIGCONT)

    def wait(self) -> Done:
        """Wait for its end."""
        code = self.forge._order(do="wait", pid=self.pid)["code"]
        return Done(code, self.log.read_text(encoding="utf-8", errors="replace"))


def stages_of(folder: Path) -> list[Stage]:
    """The stages of the project in `folder`, in the order in which they can run."""
    Repo.init(str(folder), no_scm=True).close()
    with Repo(str(folder)) as repo:
        found = []
        for stage in reversed(list(topological_sort(repo.index.graph))):
            words = tuple(shlex.split(stage.cmd))[1:]
            found.append(Stage(stage.name, words, Path(words[words.index("--out") + 1])))
    shutil.rmtree(folder / ".dvc")
    (folder / ".dvcignore").unlink()
    return found


@dataclasses.dataclass(frozen=True)
class Stand:
    """The project that ran undisturbed, its stages by name, and a forge."""

    project: Path
    stages: dict[str, Stage]
    forge: Forge

    def copy(self, folder: Path) -> Path:
        """A copy of the project to spoil, without the work of its stages."""
        ignore = shutil.ignore_patterns(".work", "bundled", "pipeline", "hub", "*.log")
        shutil.copytree(self.project, folder, ignore=ignore)
        return folder

    def whole(self, stage: Stage) -> Content:
        """What an undisturbed run of `stage` leaves."""
        return content(self.project / stage.out)


@contextmanager
def standing(folder: Path, *before: str) -> Iterator[Stand]:
    """Make a tiny project in `folder`, run every stage of it, and keep its forge open. `before`: what starts Python."""
    project = make_sources(folder / "project")
    apply_overrides(project / "params.yaml", list(SMALLER))
    stages = stages_of(project)
    forge, ran = Forge(project, folder, *before), {}
    try:
        for stage in stages:
            began, counted = time.monotonic(), folder / "changes.json"
            done = forge.run(project, stage, count=str(counted))
            assert done.code == 0, f"{stage.name}\n{done.said[-3000:]}"
            seconds = time.monotonic() - began
            changes = tuple(json.loads(counted.read_text(encoding="utf-8")))
            ran[stage.name] = dataclasses.replace(stage, seconds=seconds, changes=changes)
        shutil.rmtree(project / ".work")
        yield Stand(project, ran, forge)
    finally:
        forge.close()


def some(*names: str, quickly: int = 2) -> tuple[str, ...]:
    """All `names` for `make torture`, which sets KILLS; the first of them for `make test`."""
    return names if "KILLS" in os.environ else names[:quickly]


def content(folder: Path) -> Content:
    """Name -> bytes of all files below `folder`, hidden ones included; without those of UNLIKE."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files if file.name not in UNLIKE}
