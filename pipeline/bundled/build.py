"""One command for all bundled models: each trains, or continues, in a process of its own, two at a time.

    make models DATA=folder-of-real-data        (or: python -m pipeline.bundled.build --data DATA --out models/bundled)

State lies under .work/bundled, so a run that was stopped goes on where it was. The recipes are the constants RECIPE in
the modules; the cards (README.md in every model's folder) state what they gave.
"""

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pipeline.core.errors import BleurtError
from pipeline.core.runtime import run_main
from pipeline.core.work import WORK


def commands(data: Path, out: Path) -> dict[str, list[str]]:
    """Name of each model -> arguments of the Python process that trains it."""
    work = WORK / "bundled"
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
        found[name] = ["-m", f"pipeline.bundled.{name.replace('-', '_')}", "--data", str(data)]
        found[name] += ["--work", str(work / name), "--out", str(out / name)]
    return found


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
