"""What the last run of each stage took, and where: reports/run.html, beside the report and not in it.

Times, devices, versions and the commit differ from run to run while the results stay the same. In the report they would
change its bytes. The page is no output of DVC; the stage writes it anew at every run.
"""

import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

from pipeline.core import runtime
from pipeline.core.closure import ROOT
from pipeline.report.gather import Folders
from pipeline.report.page import render


@dataclass(frozen=True)
class Cost:
    """A stage's last run here: wall-clock and CPU seconds, its largest process in bytes, and where it trained.

    `training_seconds` are those of the steps and their validation; None if the stage trains nothing.
    """

    stage: str
    seconds: float
    cpu_seconds: float
    peak_bytes: int
    training_seconds: float | None = None
    device: str = ""
    precision: str = ""


NOTED = {field.name for field in fields(Cost)} - {"stage"}
"""What is read of a note."""


def run_page(profile: str, folders: Folders, items: Sequence[str], report_page: str) -> str:
    """The page as HTML, with a relative link to `report_page`; `items`: the signals and variants of params.yaml."""
    machine = runtime.record()
    packages = machine.pop("packages")
    return render(
        "run",
        profile=profile,
        commit=commit(),
        costs=list(costs(folders, items)),
        machine={**machine, **packages},
        report_page=report_page,
    )


def costs(folders: Folders, items: Sequence[str]) -> Iterator[Cost]:
    """The notes of each folder that the report reads, and of its subfolders named in `items`, by stage."""
    notes = runtime.notes()
    for stage, folder in vars(folders).items():
        for out in sorted(notes):
            if (out == folder or (out.parent == folder and out.name in items)) and "seconds" in notes[out]:
                known: dict[str, Any] = {name: value for name, value in notes[out].items() if name in NOTED}
                yield Cost(stage if out == folder else f"{stage} {out.name}", **known)


def commit() -> str | None:
    """The project's git commit, with " + changes" if tracked files differ from it; None outside a repository."""
    try:
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
        code = ["git", "status", "--porcelain", "--untracked-files=no", "--", "pipeline", "params.yaml", "dvc.yaml"]
        changed = subprocess.run(code, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return head.stdout.strip() + (" + changes" if changed.stdout.strip() else "")
