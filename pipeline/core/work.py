"""Runs a stage shard by shard, resumably and in parallel (law 5).

A finished shard lies under `.work/<stage>/` under a name derived from its inputs, its parameters and the stage's code.
A run that was killed finds it there; when all shards are done they become the stage's output (`pipeline.core.outputs`),
which therefore is the same whether the run was killed or not. Counts of rows travel the same way (law 7).
"""

import concurrent.futures
import dataclasses
import functools
import hashlib
import json
import multiprocessing
import os
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow
from tqdm import tqdm

from pipeline.core import cluster, modules, runtime
from pipeline.core.outputs import alone, making, remove_folder
from pipeline.core.shards import replacing, shard_name, write_shard

WORK = Path(".work")
"""Where unfinished stages keep their finished shards; git-ignored, safe to delete between runs."""

LARGE_BYTES = 1 << 26
"""A file of this size is hashed once in a process, as long as its size and its time stay the same."""


@dataclass(frozen=True)
class Outcome:
    """One shard's table and its row accounts: `rows_in`, `rows_out` and `dropped` by reason; they must add up."""

    table: pyarrow.Table
    rows_in: int
    rows_out: int
    dropped: dict[str, int]

    def __post_init__(self) -> None:
        assert self.rows_in == self.rows_out + sum(self.dropped.values()), (self.rows_in, self.rows_out, self.dropped)


@dataclass(frozen=True)
class Job:
    """A stage's work: `function(index, inputs, params)` makes shard `index` out of `inputs[index]`.

    `function` is a module-level callable (worker processes import it); `inputs[i]` are the files that shard i reads,
    and `params` a frozen dataclass. `module` is the stage's module name, whose code is part of every fingerprint.
    `on_device` says whether shards compute on the runtime's device: then there is one worker a GPU, else one a core.
    `needs` are the files and folders that every shard reads beside its inputs (models, texts): nodes of a cluster that
    share no folder get a copy of them. Their content belongs into `extra`.
    """

    module: str
    function: Callable[[int, Sequence[Path], Any], Outcome]
    inputs: Sequence[Sequence[Path]]
    params: Any
    extra: str = ""
    on_device: bool = True
    needs: Sequence[Path] = ()


def file_hash(file: Path) -> str:
    """A hash of a file's bytes, or of a folder's sorted file names and bytes; for fingerprints, not published sums."""
    digest = hashlib.sha256()
    files = [file] if file.is_file() else sorted(f for f in file.rglob("*") if f.is_file())
    for one in files:
        if one != file:
            digest.update(str(one.relative_to(file)).encode())
        found = one.stat()
        digest.update((_large_sum if found.st_size >= LARGE_BYTES else _sum)(one, found.st_size, found.st_mtime_ns))
    return digest.hexdigest()


def _sum(file: Path, *_: int) -> bytes:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").digest()


@functools.cache
def _large_sum(file: Path, size: int, changed: int) -> bytes:
    """The sum of a file that many shards read, such as a dump: it is computed once in a process."""
    return _sum(file, size, changed)


def fingerprint(job: Job, index: int) -> str:
    """Name of shard `index`'s finished work: changes with its inputs, the params, the code and nothing else."""
    parts = [
        job.module,
        str(index),
        repr(dataclasses.asdict(job.params)),
        job.extra,
        modules.code_fingerprint(job.module),
        *(file_hash(file) for file in job.inputs[index]),
    ]
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:24]


def run_job(job: Job, out: Path) -> dict[str, Any]:
    """Make every shard, move them to `out/part-*.parquet`, write `out/counts.json` and return the counts.

    A BleurtError if another run in this working copy makes the same output, or works on the same shards.
    """
    stage = job.module.split(".")[1]
    folder = WORK / stage / out.name
    with alone(folder):
        with making(out) as new:
            names = [fingerprint(job, index) for index in range(len(job.inputs))]
            todo = [i for i, name in enumerate(names) if not _finished(folder / name)]
            done = len(names) - len(todo)
            if done:
                print(f"{stage}: {done} of {len(names)} shards were finished by an earlier run", flush=True)
            with tqdm(total=len(names), initial=done, desc=f"{stage} {out.name}", unit="shard") as bar:
                for _ in _engine(job, todo, [folder / names[i] for i in todo]):
                    bar.update()
            counts = _gathered(folder, names, new)
        remove_folder(folder)
    return counts


def _finished(target: Path) -> bool:
    return target.with_suffix(".json").exists() and target.with_suffix(".parquet").exists()


def _engine(job: Job, todo: Sequence[int], targets: Sequence[Path]) -> Any:
    if runtime.engine() == "ray" and todo:
        return _on_ray(job, todo, targets)
    return _on_processes(job, todo, targets)


def _on_processes(job: Job, todo: Sequence[int], targets: Sequence[Path]) -> Any:
    count = min(runtime.workers(on_device=job.on_device), len(todo))
    if count <= 1:  # no process to pay for
        for i, target in zip(todo, targets, strict=True):
            yield _make(job.function, job.params, i, job.inputs[i], target)
        return
    context = multiprocessing.get_context("spawn")
    numbers = context.SimpleQueue()
    for number in range(count):
        numbers.put(number)
    with concurrent.futures.ProcessPoolExecutor(
        count, mp_context=context, initializer=_start_worker, initargs=(numbers,)
    ) as pool:
        futures = [
            pool.submit(_make, job.function, job.params, i, job.inputs[i], target)
            for i, target in zip(todo, targets, strict=True)
        ]
        try:
            for future in concurrent.futures.as_completed(futures):
                yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _start_worker(numbers: Any) -> None:
    """In a worker: take a number, which picks its GPU; end when the stage ends, so that no worker outlives it."""
    os.environ[runtime.WORKER] = str(numbers.get())
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _on_ray(job: Job, todo: Sequence[int], targets: Sequence[Path]) -> Iterator[int]:
    """Tasks of a Ray cluster."""
    stage = job.module.split(".")[1]
    tasks = [cluster.Task(i, job.inputs[i], target) for i, target in zip(todo, targets, strict=True)]
    key = hashlib.sha256(" ".join(target.name for target in targets).encode()).hexdigest()[:24]
    make = functools.partial(_make, job.function, job.params)
    name = f"{stage} {targets[0].parent.name}"
    return cluster.run(cluster.Stage(name, make, job.needs, key, job.on_device, WORK / stage), tasks)


def _make(
    function: Callable[[int, Sequence[Path], Any], Outcome],
    params: Any,
    index: int,
    inputs: Sequence[Path],
    target: Path,
) -> int:
    """In a worker: one thread, so that rounding does not depend on how many workers there are."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import torch

    torch.set_num_threads(1)
    outcome = function(index, inputs, params)
    write_shard(target.with_suffix(".parquet"), outcome.table)
    counts = {"rows_in": outcome.rows_in, "rows_out": outcome.rows_out, "dropped": outcome.dropped}
    write_json(target.with_suffix(".json"), counts)
    return index


def write_json(file: Path, value: object) -> None:
    """Write `value` as sorted, indented JSON, atomically."""
    with replacing(file) as temporary:
        temporary.write_text(json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def _gathered(folder: Path, names: Sequence[str], out: Path) -> dict[str, Any]:
    """Put the finished shards `names` of `folder` into `out` with their counts, which are returned."""
    total = {"rows_in": 0, "rows_out": 0}
    dropped: Counter[str] = Counter()
    for index, name in enumerate(names):
        counts = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        total["rows_in"] += counts["rows_in"]
        total["rows_out"] += counts["rows_out"]
        dropped.update(counts["dropped"])
        _place(folder / f"{name}.parquet", out / shard_name(index))
    result = {**total, "dropped": dict(sorted(dropped.items()))}
    write_json(out / "counts.json", result)
    return result


def _place(source: Path, file: Path) -> None:
    """Put `source` at `file` without a second copy of its bytes if the file system has links."""
    with replacing(file) as temporary:
        try:
            os.link(source, temporary)
        except OSError:
            shutil.copyfile(source, temporary)
