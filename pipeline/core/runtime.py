"""The engine: workers, device, threads, versions. It comes from the environment and changes no result (law 5).

BLEURT_WORKERS  worker processes for shards (default: one a core)
BLEURT_DEVICE   "cpu", "cuda", "mps" (default: cuda where there is one)
BLEURT_ENGINE   "local" (default) or "ray": a Ray cluster that already exists, by RAY_ADDRESS
"""

import contextlib
import importlib.metadata
import json
import os
import platform
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline.core.errors import BleurtError, ParamsError

PACKAGES = ("torch", "transformers", "tokenizers", "ctranslate2", "sacrebleu", "rouge-score", "pyarrow", "scipy", "dvc")

TIMES = Path(".work/times.jsonl")
"""What each stage cost on this machine, a line for each run: seconds, CPU seconds, largest process in bytes."""


def workers() -> int:
    """Number of worker processes: BLEURT_WORKERS, else one a core that this process may use."""
    text = os.environ.get("BLEURT_WORKERS", "")
    if not text:
        return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    if not text.isdigit() or int(text) < 1:
        raise ParamsError(f"BLEURT_WORKERS must be a whole number from 1, not {text!r}.")
    return int(text)


def device() -> str:
    """Name of the torch device to compute on: BLEURT_DEVICE, else cuda where there is one, else cpu."""
    import torch

    wanted = os.environ.get("BLEURT_DEVICE", "")
    return wanted or ("cuda" if torch.cuda.is_available() else "cpu")


def precision(*, training: bool = False) -> str:
    """ "bf16" where the hardware computes in it, else "float32".

    A GPU uses it always. A CPU with bf16 instructions (AVX512-BF16, AMX) uses it in `training` alone, where it nearly
    doubles the speed; scores on a CPU stay in float32, so that they do not depend on what shares their batch.
    """
    import torch

    where = device().split(":")[0]
    if where == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported() else "float32"
    found = torch.cpu.get_capabilities() if where == "cpu" and training else {}
    return "bf16" if found.get("avx512_bf16") or found.get("amx_bf16") else "float32"


def autocast(*, training: bool = False) -> contextlib.AbstractContextManager[Any]:
    """Autocast to bf16 where that is the `precision`, nothing elsewhere."""
    import torch

    if precision(training=training) == "float32":
        return contextlib.nullcontext()
    return torch.autocast(device().split(":")[0], dtype=torch.bfloat16)


def record() -> dict[str, Any]:
    """What the report says of the machine: hardware, Python and package versions."""
    return {
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "device": device(),
        "python": platform.python_version(),
        "packages": {name: importlib.metadata.version(name) for name in PACKAGES},
    }


def _processor() -> str:
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


def peak_memory_bytes() -> int:
    """Largest resident set of this process and of its finished children so far, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    usage = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return max(usage) * unit


def run_main(main: Callable[[], None]) -> None:
    """Run a stage's `main`; a BleurtError becomes one sentence on standard error and exit code 2 (law 7).

    A stage that succeeds adds a line to TIMES: the folder that it made, and what that cost.
    """
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    started = time.time()
    try:
        main()
    except BleurtError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    if "--out" in sys.argv and os.environ.get("RANK", "0") == "0":
        _note_cost(sys.argv[sys.argv.index("--out") + 1], started)


def _note_cost(out: str, started: float) -> None:
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cost = {
        "out": out,
        "seconds": round(time.time() - started, 1),
        "cpu_seconds": round(sum(one.ru_utime + one.ru_stime for one in usage), 1),
        "peak_bytes": peak_memory_bytes(),
    }
    with contextlib.suppress(OSError):  # a note, not a result: a read-only folder does not fail the stage
        TIMES.parent.mkdir(exist_ok=True)
        with TIMES.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(cost) + "\n")
