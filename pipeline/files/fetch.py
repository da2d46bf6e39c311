"""Brings files here: folders, files, archives and URLs become local paths.

A download goes to `.work/downloads`. A download that breaks off keeps the bytes that have arrived, and the next run
asks only for the rest (HTTP Range). A file gets its name when it is whole and its SHA-256 is right. An archive is
unpacked into `.work/archives/<SHA-256 of the archive>`, first under a temporary name, so that a killed run never leaves
a part of it. Archives are not trusted: no member may lie outside the folder, link to a place outside it, or be a
device.
"""

import hashlib
import http.client
import os
import shutil
import tarfile
import urllib.parse
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tqdm import tqdm

from pipeline.core import work
from pipeline.core.errors import InputError, StorageError

TAR, ZIP = (".tar.gz", ".tgz", ".tar"), (".zip",)
CHUNK_BYTES = 1 << 20
TIMEOUT_SECONDS = 60
_BROKEN = (OSError, ValueError, http.client.HTTPException)
_BY_HAND = "fetch it by hand and give the file's path instead"


def is_url(path: str) -> bool:
    """Whether `path` names something to download.

    >>> is_url("https://example.org/a.tgz"), is_url("data/own/a.tgz")
    (True, False)
    """
    return path.lower().startswith(("http://", "https://"))


def is_archive(file: Path) -> bool:
    """Whether the name of `file` is that of an archive; its bytes are not read.

    >>> is_archive(Path("a.tar.gz")), is_archive(Path("a.tsv.gz"))
    (True, False)
    """
    return file.name.lower().endswith(TAR + ZIP)


def local(path: str, sha256: str | None) -> Path:
    """The local file or folder of `path`, which names a folder, a file, an archive (it is unpacked) or a URL.

    `sha256` is checked if it is given; see `fetched` for the errors. An archive that is damaged, or has a member that
    must not be unpacked, is an InputError.
    """
    return _unpacked(fetched(path, sha256))


def fetched(path: str, sha256: str | None) -> Path:
    """The local file or folder of `path`, as `local` has it, but archives stay packed.

    A missing file, a wrong sum and a failed download are InputErrors; a disk that cannot be written to is a
    StorageError. For a URL without `sha256`, the sum of the download is printed, so that it can be pinned.
    """
    if is_url(path):
        return _downloaded(path, sha256)
    place = Path(path)
    if not place.exists():
        raise InputError("no such file or folder", file=path)
    if sha256 is not None and place.is_dir():
        raise InputError("is a folder, which has no SHA-256; give null", file=path, value=sha256)
    _verify(place, sha256, path)
    return place


def _verify(file: Path, sha256: str | None, shown: str) -> None:
    if sha256 is not None and (found := _sum(file)) != sha256.lower():
        raise InputError(f"has SHA-256 {found}, expected {sha256}", file=shown)


def _sum(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _downloaded(url: str, sha256: str | None) -> Path:
    """The file behind `url`, downloaded once. A download whose sum is wrong is removed."""
    name = Path(urllib.parse.urlparse(url).path).name or "download"
    folder = work.WORK / "downloads" / hashlib.sha256(url.encode()).hexdigest()[:24]
    file, part = folder / name, folder / f"{name}.part"
    if file.exists():
        _verify(file, sha256, str(file))
    else:
        folder.mkdir(parents=True, exist_ok=True)
        _download(url, part, has_sum=sha256 is not None)
        try:
            _verify(part, sha256, url)
        except InputError:
            part.unlink()
            raise
        part.replace(file)
    if sha256 is None:
        print(f"{url} has SHA-256 {_sum(file)}; pin it in params.yaml", flush=True)
    return file


@dataclass(frozen=True)
class _Answer:
    """A server's answer: the bytes of a file from `start` on, and the whole file's size if the server says it."""

    stream: BinaryIO
    start: int
    size: int | None
    version: str  # ETag or date of the file on the server, if it says one


def _download(url: str, part: Path, *, has_sum: bool) -> None:
    """Make `part` the whole file behind `url`; a download that breaks off leaves what has arrived.

    The next run continues it only if a checksum or the server can tell whether both parts belong together.
    """
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
        if have and getattr(error, "code", None) == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return None
        raise InputError(f"could not be downloaded ({_reason(error)}); {_BY_HAND}", file=url) from error
    start = have if stream.status == http.HTTPStatus.PARTIAL_CONTENT else 0  # some servers cannot continue
    total = stream.headers.get("Content-Range", "").rpartition("/")[2]
    rest = stream.headers.get("Content-Length", "")
    size = int(total) if total.isdecimal() else start + int(rest) if rest.isdecimal() else None
    tag = stream.headers.get("ETag", "")
    weak = not tag or tag.startswith("W/")  # a weak tag may not stand in If-Range
    return _Answer(stream, start, size, stream.headers.get("Last-Modified", "") if weak else tag)


def _chunks(answer: _Answer, url: str) -> Iterator[bytes]:
    """The bytes of `answer`, with a progress bar; an InputError if they end before the file does."""
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
        raise InputError(f"cut off after {done}{of} bytes{reason}; run again to continue", file=url)


def _reason(error: Exception) -> str:
    return " ".join(str(error).strip("<>").split())


def _unpacked(place: Path) -> Path:
    """The folder with the members of the archive `place`, unpacked once; `place` itself if it is no archive."""
    if place.is_dir() or not is_archive(place):
        return place
    folder = work.WORK / "archives" / _sum(place)[:24]
    if not folder.exists():
        temporary = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        try:
            _extract(place, temporary)
            temporary.replace(folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return folder


def _extract(archive: Path, folder: Path) -> None:
    try:
        if archive.name.lower().endswith(ZIP):
            _extract_zip(archive, folder)
        else:
            with tarfile.open(archive) as tar:
                if hasattr(tarfile, "data_filter"):  # from Python 3.11.4 on
                    tar.extraction_filter = tarfile.data_filter
                tar.extractall(folder, members=_members(tar, archive, folder))
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise InputError(f"not a whole archive ({' '.join(str(error).split())[:120]})", file=archive) from error
    except OSError as error:
        if error.errno is None:  # gzip's own: a damaged stream
            raise InputError(f"not a whole archive ({error})", file=archive) from error
        raise StorageError(f"{folder}: {archive} could not be unpacked, {error.strerror}.") from error


def _members(tar: tarfile.TarFile, archive: Path, folder: Path) -> Iterator[tarfile.TarInfo]:
    """The members of `tar`, one by one, as they are unpacked into `folder`.

    Plain files, folders, and links that stay inside `folder` pass; any other member is an InputError. Python's own
    filter of this kind came only with 3.11.4.
    """
    root = folder.resolve()
    for member in tar:
        place = (root / member.name).resolve()
        inside = place.is_relative_to(root)
        if member.issym():
            inside = inside and (place.parent / member.linkname).resolve().is_relative_to(root)
        elif member.islnk():
            inside = inside and (root / member.linkname).resolve().is_relative_to(root)
        elif not (member.isfile() or member.isdir()):
            inside = False
        if not inside:
            raise InputError("holds a member that must not be unpacked", file=archive, value=member.name)
        member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
        member.mode = (member.mode & 0o755) | (0o700 if member.isdir() else 0o600)
        yield member


def _extract_zip(archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        for name in opened.namelist():
            if not (folder / name).resolve().is_relative_to(folder.resolve()):
                raise InputError("holds a member that must not be unpacked", file=archive, value=name)
        opened.extractall(folder)  # links in a zip are written as plain files
