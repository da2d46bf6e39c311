"""What is done to a stage: its process dies at its n-th change of the disk, the disk is full from then on, and more.

Python tells every change of the disk to an audit hook before it happens: files opened for writing, folders made, names
moved, linked or removed. Writes inside Arrow's or Rust's code are not seen; kills at moments of time hit those.
"""

import ctypes
import errno
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CHANGES = ("os.rename", "os.link", "os.symlink", "os.remove", "os.rmdir", "os.mkdir", "os.truncate")
GROWING = ("open", "os.mkdir", "os.link", "os.symlink")
"""Changes that a full disk refuses."""

CAPABILITIES = 0x20080522
OWNERLESS = (1, 2, 3)
"""CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER: with these, permissions mean nothing to root."""


def install(
    *,
    count: str | None = None,
    kill_at: int | None = None,
    pause_at: int | None = None,
    full_from: int | None = None,
    clock: list[float] | None = None,
    bound: bool = False,
) -> None:
    """Spoil this process.

    `count`: at its end it writes all changes to this file. `kill_at`: it dies just before this change, from 0;
    `pause_at`: it stops there until it is told to go on.
    `full_from`: the disk refuses this change and whatever else would grow it. `clock`: the time of the day jumps by
    these seconds at one reading after another. `bound`: root obeys permissions, as other users do.
    """
    if bound:
        obey_permissions()
        tempfile.tempdir = None  # found anew, as in a process that starts
    if clock:
        jump(clock)
    changes: list[str] = []

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        what = changed(event, arguments)
        if what is None:
            return
        number = len(changes)
        changes.append(f"{event} {what}")
        if number == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if number == pause_at:
            os.kill(os.getpid(), signal.SIGSTOP)
        if full_from is not None and number >= full_from and event in GROWING:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), what)

    if (count, kill_at, pause_at, full_from) != (None,) * 4:
        sys.addaudithook(watch)
    if count is not None:
        leave, file = os._exit, Path(count).absolute()

        def note(code: int) -> None:
            file.write_text(json.dumps(list(changes)), encoding="utf-8")
            leave(code)

        os._exit = note  # type: ignore[assignment]


def changed(event: str, arguments: tuple[Any, ...]) -> str | None:
    """The path that an event changes; None if it changes nothing that lasts."""
    if event == "open":
        path, mode, flags = arguments
        written = flags & WRITING if isinstance(flags, int) else set(mode or "r") & set("wax+")
        if not written or not isinstance(path, str | bytes | os.PathLike):
            return None
    elif event in CHANGES:
        path = arguments[0]
    else:
        return None
    text = os.fsdecode(path) if not isinstance(path, int) else str(path)
    return None if text.startswith(("/dev/", "/proc/", "/sys/")) else text


def jump(seconds: list[float]) -> None:
    """Make `time.time` and `time.time_ns` jump by each of `seconds` in turn, over and over."""
    real, state = time.time_ns, {"readings": 0, "offset": 0.0}

    def jumping() -> int:
        state["offset"] += seconds[state["readings"] % len(seconds)]
        state["readings"] += 1
        return real() + int(state["offset"] * 1e9)

    time.time_ns = jumping
    time.time = lambda: jumping() / 1e9


def obey_permissions() -> None:
    """Give up root's right to pass over permissions; nothing happens to other users."""
    library = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(CAPABILITIES, 0)
    data = (ctypes.c_uint32 * 6)()
    if library.capget(header, data):
        raise OSError(ctypes.get_errno(), "capget")
    for bit in OWNERLESS:
        data[0] &= ~(1 << bit) & 0xFFFFFFFF
    if library.capset(header, data):
        raise OSError(ctypes.get_errno(), "capset")
