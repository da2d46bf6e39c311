"""One command for all bundled models: each trains, or continues, in a process of its own, two at a time.

    make models DATA=folder-of-real-data        (or: python -m pipeline.bundled.build --data DATA --out models/bundled)

State lies under .work/bundled, so a run that was stopped goes on where it was; other data or another line of code start
anew. The recipes are the constants RECIPE in the modules; the cards (README.md in every model's folder) state what they
gave.
"""

import argparse
import hashlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pipeline.core.closure import code_fingerprint
from pipeline.core.errors import BleurtError
from pipeline.core.runtime import run_main
from pipeline.core.work import WORK, file_hash


def commands(data: Path, out: Path) -> dict[str, list[str]]:
    """Name of each model -> arguments of the Python process that trains it."""
    work = _state("pipeline.bundled.translator", data)
    translator = ["-m", "pipeline.bundled.translator", "--data", str(data / "parallel"), "--work", str(work)]
    found = {
        f"translator-{direction}": [
            *translator,
            "--direction",
            direction,
            "--out",
            str(out / f"translator-{direction}"),
        ]
        for direction in ("en-x", "x-en")
    }
    for name in ("entailment", "mask-filler"):
        module = f"pipeline.bundled.{name.replace('-', '_')}"
        found[name] = ["-m", module, "--data", str(data), "--work", str(_state(module, data)), "--out", str(out / name)]
    return found


def _state(module: str, data: Path) -> Path:
    """Where training by `module` keeps its state: a folder for each form of the code and of the data."""
    digest = hashlib.sha256(f"{code_fingerprint(module)} {file_hash(data)}".encode()).hexdigest()[:16]
    return WORK / "bundled" / f"{module.rsplit('.', 1)[-1]}-{digest}"


def _run(name: str, arguments: list[str], log: Path) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as stream:
        done = subprocess.run(
            [sys.executable, *arguments], stdout=stream, stderr=stream, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
    if done.returncode:
        raise BleurtError(f"{name}: training failed with code {done.returncode}; see {log}.")


def main() -> None:
    """Train every bundled model from the folder `--data`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    with ThreadPoolExecutor(2) as pool:
        jobs = commands(arguments.data, arguments.out)
        waiting = [pool.submit(_run, name, job, WORK / "bundled" / f"{name}.log") for name, job in jobs.items()]
        for job in waiting:
            job.result()


if __name__ == "__main__":
    run_main(main)
