"""The output of a stage appears in one step, and one run at a time makes it (law 5).

A stage fills a folder beside its output, `.new/NAME`, which takes the output's place at the end. Whenever the run ends,
by a kill too, the output is absent, the earlier one, or whole. What a kill leaves in `.new` is removed by the next run.

A lock under LOCKS keeps a second run away. The system lets it go with its process, so that a kill leaves no lock.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

from pipeline.core.errors import BleurtError, StorageError
from pipeline.core.shards import writing

LOCKS = Path(".work/locks")
"""Files that runs in this working copy lock; empty or with a process id, safe to delete between runs."""

NEW = ".new"
"""Folder beside an output in which the next one is made."""

FULL = (errno.ENOSPC, errno.EDQUOT)
REFUSED = (*FULL, errno.EROFS, errno.EFBIG)
"""What the system says if a disk takes no more."""


@contextlib.contextmanager
def making(out: Path, *, among: bool = False) -> Iterator[Path]:
    """Inside, an empty folder to fill, which becomes `out` at the end; on any error it is removed and `out` stays.

    `among`: `out` also holds what others made, so only the entries that the new folder has are replaced, one by one.
    A disk that takes no more is a StorageError that names the file, or `out` if the file is not known. Another run that
    makes `out` is a BleurtError. Of torchrun's processes the first alone makes something.
    """
    new = out.parent / NEW / out.name
    if os.environ.get("RANK", "0") != "0":
        yield new
        return
    with alone(out):
        try:
            with writing(out):
                _empty(new)
            yield new
            with writing(out):
                _replace(new, out, among=among)
        except Exception as error:
            told = _refusal(error, out)
            if told is None:
                raise
            raise StorageError(told.replace(str(new), str(out))) from error
        finally:
            shutil.rmtree(new, ignore_errors=True)
            with contextlib.suppress(OSError):  # other outputs may be in the making
                new.parent.rmdir()


def _empty(new: Path) -> None:
    shutil.rmtree(new, ignore_errors=True)
    while not new.is_dir():
        with contextlib.suppress(FileNotFoundError):  # a run beside this one removed the parent, which was empty
            new.mkdir(parents=True)


def final(folder: Path) -> Path:
    """The output that `folder` of `making` becomes; any other folder is itself.

    >>> final(Path("models/finetune/.new/all")).as_posix()
    'models/finetune/all'
    """
    return folder.parent.parent / folder.name if folder.parent.name == NEW else folder


def _replace(new: Path, out: Path, *, among: bool) -> None:
    """Put `new` at `out`, or each of its entries; between two renames there is neither the old nor the new."""
    if among and out.is_dir():
        for entry in sorted(new.iterdir()):
            _replace(entry, out / entry.name, among=False)
    elif new.is_file():
        new.replace(out)
    else:
        doomed = out.with_name(f".{out.name}.old")
        shutil.rmtree(doomed, ignore_errors=True)
        if out.exists():
            out.rename(doomed)
        new.rename(out)
        shutil.rmtree(doomed, ignore_errors=True)


def remove_folder(folder: Path) -> None:
    """Remove `folder` at once, by a rename: a kill on the way may leave a hidden copy, never half of the folder."""
    doomed = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(doomed, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)


def _refusal(error: BaseException, out: Path) -> str | None:
    """A sentence if a disk that takes no more is behind `error`, or a library's error that hides it; else None."""
    if isinstance(error, StorageError):
        return str(error)
    behind: BaseException | None = error
    while behind is not None and not isinstance(behind, BleurtError):
        number = behind.errno if isinstance(behind, OSError) else None
        if number in REFUSED or "No space left on device" in str(behind):
            file = getattr(behind, "filename", None) or out
            reason = os.strerror(number) if number is not None and number not in FULL else "the disk is full"
            return f"{file}: could not be written, {reason}."
        behind = behind.__cause__ or behind.__context__
    return None


@contextlib.contextmanager
def alone(place: Path) -> Iterator[None]:
    """Inside, no other run of this working copy is inside with the same `place`; a BleurtError says that one is."""
    name = hashlib.sha256(str(place.absolute()).encode()).hexdigest()[:12]
    file = LOCKS / f"{place.name}-{name}"
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        lock = file.open("a+b", buffering=0)
    with lock:
        _lock(lock, place)
        yield


def _lock(lock: FileIO, place: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        process = lock.read().decode().strip() or "unknown"
        raise BleurtError(f"{place}: another run (process {process}) is at work on it; let that end first.") from None
    except OSError:
        return  # a file system without locks
    with contextlib.suppress(OSError):  # the number is told to others; a full disk is met elsewhere
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n".encode())
