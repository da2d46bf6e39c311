"""Downloads: a file behind a URL becomes a local file, whole or not at all.

A download goes to `.work/downloads`. What the network does to everybody (a busy server, a cut connection, silence) is
tried again after a pause, and only the rest is asked for (HTTP Range); so it is by the next run, after a kill. A file
gets its name when it is whole and its SHA-256 is right.

BLEURT_MIRROR names a mirror: `https://host/path` is then read from `BLEURT_MIRROR/host/path`, as `wget --recursive`
stores it. It is the address of a server, or a folder.
"""

import hashlib
import http.client
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeVar

from tqdm import tqdm

from pipeline.core import work
from pipeline.core.errors import InputError, StorageError
from pipeline.core.packages import sha256_of

CHUNK_BYTES = 1 << 20
TIMEOUT_SECONDS = 60
WAIT_SECONDS = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Pauses before further attempts; a new byte of the file starts them anew."""

LONGEST_WAIT_SECONDS = 120.0
"""So long at most is a server waited for that says when to come back (Retry-After)."""

PASSING = (408, 425, 429, 500, 502, 503, 504)
"""HTTP statuses that may be others a moment later."""

T = TypeVar("T")

_BROKEN = (OSError, ValueError, http.client.HTTPException)
_BY_HAND = "fetch it by hand and give the file's path instead"


class _InterruptedError(Exception):
    """An attempt that failed in a way that may pass; `wait` is what the server asks for, in seconds."""

    def __init__(self, error: InputError, wait: float = 0.0) -> None:
        super().__init__(str(error))
        self.error, self.wait = error, wait


@dataclass(frozen=True)
class Remote:
    """What a server says of a file: its size in bytes and its date or ETag, as far as it says them."""

    size: int | None
    version: str


def is_url(path: str) -> bool:
    """Whether `path` names something to download.

    >>> is_url("https://example.org/a.tgz"), is_url("data/own/a.tgz")
    (True, False)
    """
    return path.lower().startswith(("http://", "https://"))


def address(url: str) -> str:
    """Where `url` is read from: itself, or if BLEURT_MIRROR is set, its place there (a URL or a path)."""
    mirror = os.environ.get("BLEURT_MIRROR", "").rstrip("/")
    return f"{mirror}/{url.partition('://')[2]}" if mirror else url


def downloaded(url: str, sha256: str | None) -> Path:
    """The file behind `url`, downloaded once. A download whose sum is wrong is removed, which is an InputError.

    So is a file that cannot be had; a disk that cannot be written to is a StorageError. Without `sha256`, the sum of
    the download is printed, so that it can be pinned.
    """
    asked = address(url)
    if not is_url(asked):
        return _in_folder(url, Path(asked), sha256)
    file = kept(url)
    part = file.with_name(f"{file.name}.part")
    if file.exists():
        verify(file, sha256, str(file))
    else:
        file.parent.mkdir(parents=True, exist_ok=True)
        _download(asked, part, has_sum=sha256 is not None)
        try:
            verify(part, sha256, asked)
        except InputError:
            part.unlink()
            raise
        part.replace(file)
    if sha256 is None:
        print(f"{url} has SHA-256 {sha256_of(file)}; pin it in params.yaml", flush=True)
    return file


def kept(url: str) -> Path:
    """Where the download of `url` lies when it is whole."""
    name = Path(urllib.parse.urlparse(url).path).name or "download"
    return work.WORK / "downloads" / hashlib.sha256(url.encode()).hexdigest()[:24] / name


def remote(url: str) -> Remote:
    """What the server, or the mirror, says of the file behind `url`; an InputError if it is not to be had."""
    asked = address(url)
    if not is_url(asked):
        return Remote(_in_folder(url, Path(asked), None).stat().st_size, "")
    answer = _patiently(lambda: _ask(asked, 0, ""))
    assert answer is not None, "something follows the first 0 bytes"
    answer.stream.close()
    return Remote(answer.size, answer.version)


def verify(file: Path, sha256: str | None, shown: str) -> None:
    """An InputError that names `shown` if `file` has another SHA-256."""
    if sha256 is not None and (found := sha256_of(file)) != sha256.lower():
        raise InputError(f"has SHA-256 {found}, expected {sha256}", file=shown)


def _in_folder(url: str, place: Path, sha256: str | None) -> Path:
    if not place.is_file():
        raise InputError("is not in the mirror BLEURT_MIRROR", file=url, value=str(place))
    verify(place, sha256, str(place))
    return place


@dataclass(frozen=True)
class _Answer:
    """A server's answer: the bytes of a file from `start` on, and the whole file's size if the server says it."""

    stream: BinaryIO
    start: int
    size: int | None
    version: str  # ETag or date of the file on the server, if it says one


def _patiently(attempt: Callable[[], T], reached: Callable[[], int] = lambda: 0) -> T:
    """What `attempt` gives, tried again while the failure may pass; `reached` counts the bytes that have come."""
    failures, most = 0, reached()
    while True:
        try:
            return attempt()
        except _InterruptedError as problem:
            if reached() > most:
                failures, most = 0, reached()
            if failures == len(WAIT_SECONDS):
                raise problem.error from problem
            time.sleep(max(WAIT_SECONDS[failures], problem.wait))
            failures += 1


def _download(url: str, part: Path, *, has_sum: bool) -> None:
    """Make `part` the whole file behind `url`; a download that breaks off leaves what has arrived."""
    _patiently(lambda: _continue(url, part, has_sum), lambda: part.stat().st_size if part.exists() else 0)


def _continue(url: str, part: Path, has_sum: bool) -> None:
    """One attempt; it continues the last one only if a checksum or the server tells whether both parts go together."""
    note = part.with_name(f"{part.name}.version")
    version = note.read_text(encoding="utf-8") if note.exists() else ""
    have = part.stat().st_size if part.exists() and (has_sum or version) else 0
    answer = _ask(url, have, version)
    if answer is not None:
        try:
            with part.open("ab") as out:
                out.truncate(answer.start)
                note.write_text(answer.version, encoding="utf-8")
                for chunk in _chunks(answer, url):
                    out.write(chunk)
        except OSError as error:
            raise StorageError(f"{part}: could not be written, {error.strerror}.") from error
    note.unlink(missing_ok=True)


def _ask(url: str, have: int, version: str) -> _Answer | None:
    """The answer to a request for what follows the first `have` bytes of `version`; None if nothing follows."""
    headers = {"User-Agent": "bleurt-pipeline", "Range": f"bytes={have}-"}
    if have and version:
        headers["If-Range"] = version  # if the file has changed since, the server sends the whole of the new one
    try:
        stream = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT_SECONDS)
    except _BROKEN as error:
        status = getattr(error, "code", None)
        if have and status == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return None
        problem = InputError(f"could not be downloaded ({_reason(error)}); {_BY_HAND}", file=url)
        if status in PASSING or (status is None and not isinstance(error, ValueError)):
            raise _InterruptedError(problem, _retry_after(error)) from error
        raise problem from error
    start = have if stream.status == http.HTTPStatus.PARTIAL_CONTENT else 0  # some servers cannot continue
    total = stream.headers.get("Content-Range", "").rpartition("/")[2]
    rest = stream.headers.get("Content-Length", "")
    size = int(total) if total.isdecimal() else start + int(rest) if rest.isdecimal() else None
    tag = stream.headers.get("ETag", "")
    weak = not tag or tag.startswith("W/")  # a weak tag may not stand in If-Range
    return _Answer(stream, start, size, stream.headers.get("Last-Modified", "") if weak else tag)


def _retry_after(error: Exception) -> float:
    """The pause that a server asks for, in seconds; 0 if it asks for none."""
    wanted = str(error.headers.get("Retry-After", "")) if isinstance(error, urllib.error.HTTPError) else ""
    return min(float(wanted), LONGEST_WAIT_SECONDS) if wanted.isdecimal() else 0.0


def _chunks(answer: _Answer, url: str) -> Iterator[bytes]:
    """The bytes of `answer`, with a progress bar; _InterruptedError if they end before the file does."""
    done, reason = answer.start, ""
    name = url.rsplit("/", 1)[-1]
    with answer.stream, tqdm(total=answer.size, initial=done, unit="B", unit_scale=True, desc=name) as bar:
        while True:
            try:
                chunk = answer.stream.read(CHUNK_BYTES)
            except _BROKEN as error:
                chunk, reason = b"", f" ({_reason(error)})"
            if not chunk:
                break
            yield chunk
            done += len(chunk)
            bar.update(len(chunk))
    if reason or done < (answer.size or 0):
        of = "" if answer.size is None else f" of {answer.size}"
        raise _InterruptedError(InputError(f"cut off after {done}{of} bytes{reason}; run again to continue", file=url))


def _reason(error: Exception) -> str:
    return " ".join(str(error).strip("<>").split())
