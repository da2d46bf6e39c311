"""The engine: workers, device, threads, versions. It comes from the environment and changes no result (law 6).

BLEURT_WORKERS  worker processes for shards (default: one a GPU if the shards compute on GPUs, else one a core)
BLEURT_DEVICE   "cpu", "cuda", "cuda:1", "mps" (default: cuda if there is a GPU); of several GPUs, "cuda" gives each
                worker and each process of torchrun its own
BLEURT_ENGINE   "local" (default) or "ray": a Ray cluster that already exists, by RAY_ADDRESS (`pipeline.core.cluster`)
BLEURT_RAY_GPUS   GPUs of one task on the cluster, if its shards compute on a device: 0 (default), 0.5, 1, ...
BLEURT_RAY_FILES  "shared" (default): all nodes see the folder in which a stage is started; "store": inputs, models,
                  code and results travel through Ray's object store
BLEURT_RAY_PROCESSES  processes of a training on the cluster (`pipeline.training.launch`); 0 (default): training is here
"""

import contextlib
import ctypes
import importlib.metadata
import json
import math
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
"""What the stages took here, and where they ran: a line of JSON for each note, in the order of time.

These facts differ from run to run, so they stand beside the outputs, never in them. `notes` reads them.
"""

WORKER = "BLEURT_WORKER"
"""Environment variable of a worker process: its number among the workers of its stage, from 0."""


def workers(*, on_device: bool = True) -> int:
    """Number of worker processes: BLEURT_WORKERS, else one a GPU for work `on_device`, or one a core."""
    text = os.environ.get("BLEURT_WORKERS", "")
    if not text:
        where = device() if on_device else "cpu"
        if where.startswith("cuda"):
            return _gpus() if where == "cuda" else 1
        return cores()
    if not text.isdigit() or int(text) < 1:
        raise ParamsError(f"BLEURT_WORKERS must be a whole number from 1, not {text!r}.")
    return int(text)


def cores() -> int:
    """Cores that this process may use, at least one."""
    return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def engine() -> str:
    """How shards are spread: "local" (processes) or "ray", by BLEURT_ENGINE."""
    wanted = os.environ.get("BLEURT_ENGINE", "") or "local"
    if wanted not in ("local", "ray"):
        raise ParamsError(f"BLEURT_ENGINE must be local or ray, not {wanted!r}.")
    return wanted


def ray_gpus() -> float:
    """GPUs that one task on a Ray cluster asks for, by BLEURT_RAY_GPUS: a share of one, or a whole number."""
    text = os.environ.get("BLEURT_RAY_GPUS", "") or "0"
    try:
        count = float(text)
    except ValueError:
        count = -1.0
    if not 0 <= count < math.inf or (count > 1 and count % 1):
        raise ParamsError(f"BLEURT_RAY_GPUS must be a share of a GPU or a whole number of them, not {text!r}.")
    return count


def ray_files() -> str:
    """How a Ray cluster gets files: "shared" (a folder that all nodes see) or "store", by BLEURT_RAY_FILES."""
    wanted = os.environ.get("BLEURT_RAY_FILES", "") or "shared"
    if wanted not in ("shared", "store"):
        raise ParamsError(f"BLEURT_RAY_FILES must be shared or store, not {wanted!r}.")
    return wanted


def device() -> str:
    """Name of the torch device to compute on: BLEURT_DEVICE, else cuda if there is a GPU, else cpu.

    Inside a worker, or a process of torchrun, "cuda" becomes that process's own GPU, such as "cuda:1". A device that
    torch does not know, or that this machine lacks, is a ParamsError.
    """
    wanted = os.environ.get("BLEURT_DEVICE", "") or ("cuda" if _gpus() else "cpu")
    kind, colon, number = wanted.partition(":")
    if kind not in ("cpu", "cuda", "mps") or (colon and not number.isdigit()):
        raise ParamsError(f"BLEURT_DEVICE must be cpu, cuda, cuda:NUMBER or mps, not {wanted!r}.")
    if not _has(kind, int(number or 0)):
        raise ParamsError(f"BLEURT_DEVICE is {wanted!r}, which torch does not find on this machine.")
    return f"cuda:{_own_gpu()}" if wanted == "cuda" and _own_gpu() is not None else wanted


def _gpus() -> int:
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def _has(kind: str, number: int) -> bool:
    import torch

    if kind == "cuda":
        return number < _gpus()
    return number == 0 and (kind == "cpu" or torch.backends.mps.is_available())


def _own_gpu() -> int | None:
    if "LOCAL_RANK" in os.environ:
        rank = int(os.environ["LOCAL_RANK"])
        if rank >= _gpus():
            raise ParamsError(f"torchrun started more processes than the {_gpus()} GPUs of this machine.")
        return rank
    return int(os.environ[WORKER]) % _gpus() if WORKER in os.environ else None


def precision(*, training: bool = False) -> str:
    """ "bf16" if the hardware computes in it, else "float32".

    A GPU uses it always. A CPU with bf16 instructions (AVX512-BF16, AMX) uses it only in `training`, where it nearly
    doubles the speed; scores on a CPU stay in float32, so that they do not depend on what shares their batch.
    """
    import torch

    from pipeline.core.kernels import has_bf16

    where = device().split(":")[0]
    if where == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    return "bf16" if where == "cpu" and training and has_bf16() else "float32"


def autocast(*, training: bool = False) -> contextlib.AbstractContextManager[Any]:
    """Autocast to bf16 if that is the `precision`; else nothing changes."""
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


def release_memory() -> None:
    """Give freed memory back to the system: glibc keeps what small objects took, which large arrays do not use."""
    with contextlib.suppress(OSError, AttributeError):  # another system, or another C library
        ctypes.CDLL(None).malloc_trim(0)


def run_main(main: Callable[[], None]) -> None:
    """Run a stage's `main`; a BleurtError becomes one sentence on standard error and exit code 2 (law 8).

    A stage that succeeds adds a line to TIMES: the folder that it made, and what that cost.
    """
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    started = time.monotonic()
    try:
        main()
    except BleurtError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    if "--out" in sys.argv and os.environ.get("RANK", "0") == "0":
        _note_cost(sys.argv[sys.argv.index("--out") + 1], started)


def _note_cost(out: str, started: float) -> None:
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    note(
        out,
        seconds=round(time.monotonic() - started, 1),
        cpu_seconds=round(sum(one.ru_utime + one.ru_stime for one in usage), 1),
        peak_bytes=peak_memory_bytes(),
    )


def note(out: str | Path, **facts: float | str) -> None:
    """Add a line to TIMES: `facts` about the run that made the folder `out`."""
    with contextlib.suppress(OSError):  # a note, not a result: a read-only folder does not fail the stage
        TIMES.parent.mkdir(exist_ok=True)
        with TIMES.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps({"out": Path(out).as_posix(), **facts}) + "\n")


def notes() -> dict[Path, dict[str, float | str]]:
    """Folder -> what is known of the run that made it last; empty if TIMES is absent, and without its damaged lines.

    Every stage notes `seconds`, `cpu_seconds` (of all its processes) and `peak_bytes` (of the largest of them).
    Training also notes `training_seconds`, `device` and `precision`.
    """
    found: dict[Path, dict[str, float | str]] = {}
    try:
        lines = TIMES.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return found
    for line in lines:
        try:
            facts = json.loads(line)
            found.setdefault(Path(facts.pop("out")), {}).update(facts)
        except (ValueError, TypeError, KeyError, AttributeError):
            continue
    return found
