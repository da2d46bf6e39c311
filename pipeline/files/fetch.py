"""Brings files here: folders, files, archives and URLs (`pipeline.files.download`) become local paths.

An archive is unpacked into `.work/archives/<SHA-256 of the archive>`, first under a temporary name, so that a killed
run never leaves a part of it. Archives are not trusted: no member may lie outside the folder, link to a place outside
it, or be a device.
"""

import os
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from pipeline.core import work
from pipeline.core.errors import InputError, StorageError
from pipeline.core.packages import sha256_of
from pipeline.files.download import downloaded, is_url, verify

TAR, ZIP = (".tar.gz", ".tgz", ".tar"), (".zip",)


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
        return downloaded(path, sha256)
    place = Path(path)
    if not place.exists():
        raise InputError("no such file or folder", file=path)
    if sha256 is not None and place.is_dir():
        raise InputError("is a folder, which has no SHA-256; give null", file=path, value=sha256)
    verify(place, sha256, path)
    return place


def _unpacked(place: Path) -> Path:
    """The folder with the members of the archive `place`, unpacked once; `place` itself if it is no archive."""
    if place.is_dir() or not is_archive(place):
        return place
    folder = work.WORK / "archives" / sha256_of(place)[:24]
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
