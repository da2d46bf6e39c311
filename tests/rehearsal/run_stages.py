"""Runs every stage of the DVC project in this folder, in order, each in a process of its own: `dvc repro`, quicker.

    python run_stages.py [STAGE ...]

The libraries are imported once and each stage starts from there (fork), because they take longer to load than the
stages of a rehearsal to run. Commands and their order are DVC's reading of dvc.yaml.
"""

import importlib
import os
import runpy
import shlex
import sys
import time
import traceback

from dvc.repo import Repo
from networkx import topological_sort

LIBRARIES = ("torch", "transformers", "pandas", "scipy.stats", "sacrebleu", "nltk", "httpx2", "bert_score", "datasets")
STAGES = ("extract", "perturb", "label", "pretrain", "collect", "grade", "finetune", "evaluate", "report")


def main() -> None:
    """Stops at the first stage that fails, with its exit code."""
    with Repo(".") as repo:
        stages = reversed(list(topological_sort(repo.index.graph)))  # which goes from a stage to what it needs
        commands = [(stage.addressing, shlex.split(stage.cmd)) for stage in stages]
    for name in (*LIBRARIES, *(f"pipeline.{stage}.__main__" for stage in STAGES)):
        importlib.import_module(name)
    for name, words in commands:
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        started = time.monotonic()
        code = run(words)
        print(f"== {name} {time.monotonic() - started:.1f} s", flush=True)
        if code:
            raise SystemExit(f"{name} ended with {code}")


def run(words: list[str]) -> int:
    """Run `python -m MODULE ARGUMENTS` in a fork; its exit code."""
    assert words[:2] == ["python", "-m"], words
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    sys.argv = words[2:]
    sys.modules.pop(f"{words[2]}.__main__", None)
    code = 1
    try:
        runpy.run_module(words[2], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
