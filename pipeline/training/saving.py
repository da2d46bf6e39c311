"""Writes the state of a run in the background, so that training does not wait for the disk.

The state is copied to memory at once and written by a thread. A save that took s seconds, more than one, is followed by
the next one after 20 s at the earliest: a state of many gigabytes costs at most a twentieth of the time, a small one is
written whenever it is asked for. The last state of a run is always written.
"""

import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch

from pipeline.core.shards import replacing

REST = 20.0
"""A save is followed by at least so many times the seconds that it took without another one."""


class Saver:
    """Saves states to `file`, one at a time; the block in which it is used ends when the last one is written."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._thread = ThreadPoolExecutor(1)
        self._pending: Future[float] | None = None
        self._rested_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._thread.shutdown()
        if kind is None:
            self._settle()

    @property
    def is_rested(self) -> bool:
        """Whether a state may be saved now; a StorageError if the one before could not be written."""
        if self._pending is not None and not self._pending.done():
            return False
        self._settle()
        return time.monotonic() >= self._rested_at

    def save(self, state: dict[str, Any], unchanging: dict[str, Any]) -> None:
        """Copy `state` and write it with `unchanging`; waits only for a state that is still being written.

        What nobody changes any more needs no copy: `unchanging` is written as it is.
        """
        self._settle()
        self._pending = self._thread.submit(self._write, _copied(state) | unchanging)

    def _settle(self) -> None:
        if self._pending is not None:
            seconds = self._pending.result()
            self._rested_at = time.monotonic() + (REST * seconds if seconds > 1 else 0.0)
            self._pending = None

    def _write(self, state: dict[str, Any]) -> float:
        started = time.monotonic()
        with replacing(self.file) as temporary, temporary.open("wb") as stream:  # a stream's errors are OSErrors
            torch.save(state, stream)
        return time.monotonic() - started


def _copied(value: Any) -> Any:
    """`value` with every tensor in it copied to the CPU's memory."""
    if isinstance(value, torch.Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        return {key: _copied(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_copied(one) for one in value]
    return value
