"""Several processes that score on one CPU: `bleurt score --processes N`. They share the weights.

The process that reads and tokenises loads the model and forks, so every process sees the same weights in memory, packed
or not. Each computes whole batches, the batches are those of one process, and their values are put in their places: the
output has the bytes of one process with as many threads. (Torch adds up in another order with another number of
threads, which moves scores by 1e-7 or so.) Where there is no safe fork (macOS, Windows) each process loads the
checkpoint.

Each gets an equal share of torch's threads, at least one. More processes than cores only get in each other's way.
"""

import gc
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path

import numpy
import torch
from numpy.typing import NDArray

from pipeline.core.errors import BleurtError
from pipeline.metric.checkpoint import load_metric
from pipeline.metric.pairs import EncodedPairs
from pipeline.metric.prediction import Replicas, batches_of, in_place

_mine: list[Replicas] = []
"""In a process that computes: its model."""


class Processes:
    """`count` processes of `threads` threads that compute outputs as `replicas`, of the checkpoint in `folder`, would.

    All start here, before the caller starts threads of its own, and end with the program.
    """

    def __init__(self, replicas: Replicas, folder: Path, count: int, threads: int) -> None:
        forks = sys.platform == "linux"
        source: Callable[[], Replicas] = (lambda: replicas) if forks else partial(_loaded, folder, replicas.precision)
        context = multiprocessing.get_context("fork" if forks else "spawn")
        self._pool = ProcessPoolExecutor(count, context, initializer=_start, initargs=(source, max(1, threads)))
        gc.collect()
        gc.freeze()  # a collection in a process would copy the pages that it marks
        self._pool.submit(os.getpid).result()  # under fork, the first task starts all of them
        gc.unfreeze()

    def outputs(
        self,
        pairs: EncodedPairs,
        batch_tokens: int,
        rows: NDArray[numpy.int64] | None = None,
        batch_pairs: int | None = None,
    ) -> NDArray[numpy.float32]:
        """As `Replicas.outputs`; a BleurtError if a process was killed."""
        batches = batches_of(pairs, batch_tokens, rows, batch_pairs)
        try:
            found = self._pool.map(_compute, (pairs.take(numpy.asarray(batch)) for batch in batches))
            return in_place(len(pairs), batches, ([one] for one in found))
        except BrokenProcessPool as error:
            raise BleurtError("A scoring process was killed, perhaps for want of memory; give fewer.") from error


def _loaded(folder: Path, precision: str) -> Replicas:
    return Replicas(load_metric(folder, "cpu"), ["cpu"], precision, owned=True)


def _start(source: Callable[[], Replicas], threads: int) -> None:
    """In a new process: its threads and its model; it leaves interrupts to the first process and ends with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(threads)
    _mine.append(source())
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _compute(batch: EncodedPairs) -> NDArray[numpy.float32]:
    return _mine[0].batch_outputs(batch)
