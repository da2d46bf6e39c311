"""The engine: workers, device, threads, versions. It comes from the environment and changes no result (law 5).

BLEURT_WORKERS  worker processes for shards (default: one a core)
BLEURT_DEVICE   "cpu", "cuda", "mps" (default: cuda where there is one)
BLEURT_ENGINE   "local" (default) or "ray": a Ray cluster that already exists, by RAY_ADDRESS
"""

import contextlib
import importlib.metadata
import os
import platform
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline.core.errors import BleurtError, ParamsError

PACKAGES = ("torch", "transformers", "tokenizers", "ctranslate2", "sacrebleu", "rouge-score", "pyarrow", "scipy", "dvc")


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


def autocast(*, training: bool = False) -> contextlib.AbstractContextManager[Any]:
    """bf16 autocast where the hardware computes in it, nothing elsewhere.

    A GPU uses it always. A CPU with bf16 instructions (AVX512-BF16, AMX) uses it in `training` alone, where it nearly
    doubles the speed; scores on a CPU stay in float32, so that they do not depend on what shares their batch.
    """
    import torch

    where = device().split(":")[0]
    if where == "cuda":
        able = torch.cuda.is_bf16_supported()
    else:
        found = torch.cpu.get_capabilities() if where == "cpu" and training else {}
        able = bool(found.get("avx512_bf16") or found.get("amx_bf16"))
    return torch.autocast(where, dtype=torch.bfloat16) if able else contextlib.nullcontext()


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
    """Run a stage's `main`; a BleurtError becomes one sentence on standard error and exit code 2 (law 7)."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        main()
    except BleurtError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
