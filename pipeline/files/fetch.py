"""Where a corpus lies: folders, files, archives and URLs become local paths.

Archives are unpacked under `.work/archives/<SHA-256 of the archive>`, downloads are kept under `.work/downloads`, each
written under a temporary name and renamed, so that a killed run leaves nothing half done. Archives are not trusted: no
member may lie outside the folder, be a link out of it, or be a device (Python's `data` filter).
"""

import hashlib
import http.client
import os
import shutil
import tarfile
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from tqdm import tqdm

from pipeline.core import work
from pipeline.core.errors import InputError, StorageError

TAR, ZIP = (".tar.gz", ".tgz", ".tar"), (".zip",)
CHUNK_BYTES = 1 << 20
TIMEOUT_SECONDS = 60


def local(path: str, sha256: str | None) -> Path:
    """`path` (folder, file, archive or URL) as a local file or folder; archives are unpacked, sums verified."""
    if path.startswith(("http://", "https://")):
        return _unpacked(_downloaded(path, sha256))
    place = Path(path)
    if not place.exists():
        raise InputError("no such file or folder", file=path)
    _verify(place, sha256, path)
    return _unpacked(place)


def is_archive(file: Path) -> bool:
    """By name alone."""
    return file.name.lower().endswith(TAR + ZIP)


def _verify(place: Path, sha256: str | None, shown: str) -> None:
    if sha256 is not None and place.is_dir():
        raise InputError("is a folder, which has no SHA-256; give null", file=shown, value=sha256)
    if sha256 is not None and (found := _sum(place)) != sha256.lower():
        raise InputError(f"has SHA-256 {found}, expected {sha256}", file=shown)


def _sum(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _downloaded(url: str, sha256: str | None) -> Path:
    name = url.split("?")[0].rstrip("/").rsplit("/", 1)[-1] or "download"
    file = work.WORK / "downloads" / hashlib.sha256(url.encode()).hexdigest()[:24] / name
    if not file.exists():
        temporary = file.with_name(f".{name}.tmp")
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            _fetch(url, temporary)
            _verify(temporary, sha256, url)
            temporary.replace(file)
        finally:
            temporary.unlink(missing_ok=True)
    _verify(file, sha256, str(file))
    if sha256 is None:
        print(f"collect: {url} has SHA-256 {_sum(file)}; pin it in params.yaml", flush=True)
    return file


def _fetch(url: str, target: Path) -> None:
    try:
        with target.open("wb") as out:
            for chunk in _chunks(url):
                out.write(chunk)
    except OSError as error:
        raise StorageError(f"{target}: could not be written, {error.strerror}.") from error


def _chunks(url: str) -> Iterator[bytes]:
    advice = "fetch it by hand and give the file's path instead"
    done = 0
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer:
            size = int(answer.headers.get("Content-Length") or 0)
            with tqdm(total=size or None, unit="B", unit_scale=True, desc=url.rsplit("/", 1)[-1]) as bar:
                while chunk := answer.read(CHUNK_BYTES):
                    yield chunk
                    done += len(chunk)
                    bar.update(len(chunk))
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = str(error).strip("<>")
        raise InputError(f"could not be downloaded ({reason}); {advice}", file=url) from error
    if done < size:
        raise InputError(f"broke off after {done} of {size} bytes; {advice}", file=url)


def _unpacked(place: Path) -> Path:
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
    """The members of `tar`, one by one as they are unpacked into `folder`; one that must not be is an InputError.

    Plain files, folders, and links that stay inside pass; Python's own filter for that came with 3.11.4.
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
