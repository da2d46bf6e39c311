"""Starts stages quickly and spoils them on demand: the libraries are imported once, and each stage forks from there.

    python forge.py        orders come as lines of JSON on standard input, one answer to each on standard output

An order {"do": "start", "folder": …, "words": ["-m", "pipeline.extract", …], "log": …, "environment": …, "fault": …} is
answered by the process's id, {"do": "wait", "pid": …} by its exit code (negative: the signal that ended it). {"do":
"mount", "place": …, "bytes": …} mounts a small file system, if this process may.
"""

import importlib
import json
import os
import runpy
import subprocess
import sys
import traceback
from typing import Any

from torture import faults

LIBRARIES = ("torch", "transformers", "pandas", "scipy.stats", "sacrebleu", "nltk", "bert_score", "datasets", "dvclive")
STAGES = ("extract", "adapt", "perturb", "label", "pretrain", "collect", "grade", "finetune", "evaluate", "report")


def main() -> None:
    """Answer orders until standard input ends."""
    for name in (*LIBRARIES, *(f"pipeline.{stage}.__main__" for stage in STAGES)):
        importlib.import_module(name)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        if order["do"] == "wait":
            answer = {"code": os.waitstatus_to_exitcode(os.waitpid(order["pid"], 0)[1])}
        elif order["do"] == "mount":
            words = ["mount", "-t", "tmpfs", "-o", f"size={order['bytes']}", "none", order["place"]]
            answer = {"code": subprocess.run(words, stdout=sys.stderr).returncode}
        else:
            child = os.fork()
            if not child:
                answers.close()
                become(order)
            answer = {"pid": child}
        print(json.dumps(answer), file=answers, flush=True)


def become(order: dict[str, Any]) -> None:
    """This process becomes the stage; it never returns."""
    os.setsid()
    os.chdir(order["folder"])
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.update(order["environment"])
    assert order["words"][0] == "-m", order
    sys.argv = order["words"][1:]
    sys.modules.pop(f"{sys.argv[0]}.__main__", None)
    code = 1
    try:
        faults.install(**order["fault"])
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
