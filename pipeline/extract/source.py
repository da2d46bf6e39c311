"""Where the dump is: a file, a folder of dumps, a URL with its checksum, or a file of the gensim wheel.

A source is named in params.yaml as
  path/to/dump.xml.bz2    one dump, plain XML or bz2
  path/to/folder          every *.xml, *.xml.bz2 and *.xml-p1p100.bz2 in it, in the order of their names
  https://…               fetched once into the work folder, and resumed where a fetch was cut off
  gensim:NAME             the file NAME of gensim's test data, which its wheel carries
"""

import hashlib
import http.client
import re
import shutil
import urllib.error
import urllib.parse
import urllib.request
from email.message import Message
from pathlib import Path

from pipeline.core.errors import InputError, ParamsError, StorageError

_DUMP_NAME = re.compile(r".+\.xml(-[\w.-]+?)?(\.bz2)?")
_BLOCK_BYTES = 1 << 20


def dump_files(source: str, sha256: str | None, downloads: Path) -> list[Path]:
    """The dump files that `source` names, in order; `sha256` is required of a URL and checked on any single file."""
    if re.match(r"https?://", source):
        return [_fetched(source, _required(sha256), downloads)]
    path = _in_gensim(source.removeprefix("gensim:")) if source.startswith("gensim:") else Path(source)
    if not path.exists():
        raise InputError("no such file or folder", file=path)
    if path.is_dir():
        if sha256 is not None:
            raise ParamsError("extract.sha256: must be null where the source is a folder.")
        return _in_folder(path)
    if sha256 is not None:
        _check(path, sha256)
    return [path]


def _required(sha256: str | None) -> str:
    if sha256 is None or not re.fullmatch(r"[0-9a-fA-F]{64}", sha256):
        raise ParamsError(f"extract.sha256: a URL needs its SHA-256 in 64 hexadecimal digits, not {sha256!r}.")
    return sha256.lower()


def _in_gensim(name: str) -> Path:
    try:
        from gensim.test.utils import datapath
    except ImportError as error:
        raise InputError("the package gensim, which carries this file, is not installed", file=name) from error
    return Path(datapath(name))


def _in_folder(folder: Path) -> list[Path]:
    files = sorted(file for file in folder.iterdir() if file.is_file() and _DUMP_NAME.fullmatch(file.name))
    if not files:
        raise InputError("no *.xml or *.xml.bz2 in this folder", file=folder)
    return files


def _check(file: Path, sha256: str) -> None:
    with file.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != sha256.lower():
        raise InputError(f"SHA-256 is {found}, but extract.sha256 is {sha256}", file=file)


def _fetched(url: str, sha256: str, downloads: Path) -> Path:
    """The file behind `url` under `downloads`; checked once, when the fetch is complete."""
    name = Path(urllib.parse.urlparse(url).path).name or "dump"
    target = downloads / f"{sha256[:16]}-{name}"
    if target.exists():
        return target
    partial = target.with_name(f"{target.name}.part")
    downloads.mkdir(parents=True, exist_ok=True)
    _download(url, partial)
    try:
        _check(partial, sha256)
    except InputError as error:
        partial.unlink()
        raise InputError(str(error).partition(": ")[2].rstrip("."), file=url) from None
    return partial.rename(target)


def _download(url: str, partial: Path) -> None:
    """Append to `partial` what it lacks; a server that cannot resume sends everything again.

    A fetch that ends before its announced length leaves `partial` for the next run and raises an InputError.
    """
    have = partial.stat().st_size if partial.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "bleurt-pipeline", "Range": f"bytes={have}-"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer, partial.open("ab") as stream:
            if answer.status != http.HTTPStatus.PARTIAL_CONTENT:
                stream.truncate(0)
                have = 0
            shutil.copyfileobj(answer, stream, _BLOCK_BYTES)
            whole = _announced(answer.headers, have)
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or not have:
            raise InputError(f"the server answers {error.code} {error.reason}", file=url) from error
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        raise InputError(f"cannot be fetched ({getattr(error, 'reason', error)})", file=url) from error
    except OSError as error:
        raise StorageError(f"{partial}: could not be written, {error.strerror}.") from error
    else:
        found = partial.stat().st_size
        if whole is not None and found < whole:
            raise InputError(f"cut off after {found} of {whole} bytes; run again to continue", file=url)


def _announced(headers: Message, have: int) -> int | None:
    """Bytes of the whole file by the headers of an answer that continues `have` bytes; None where they do not say."""
    total = headers.get("Content-Range", "").rpartition("/")[2]
    rest = headers.get("Content-Length", "")
    return int(total) if total.isdecimal() else have + int(rest) if rest.isdecimal() else None
