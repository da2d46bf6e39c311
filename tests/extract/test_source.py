"""Where dumps come from: files, folders, gensim's wheel, and a server on this machine."""

import hashlib
import http.server
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.core.errors import InputError, ParamsError
from pipeline.extract.source import dump_files

BODY = bytes(range(256)) * 400
SHA256 = hashlib.sha256(BODY).hexdigest()


def test_file_and_its_checksum(tmp_path: Path) -> None:
    file = tmp_path / "d.xml"
    file.write_bytes(BODY)
    assert dump_files(str(file), None, tmp_path) == [file]
    assert dump_files(str(file), SHA256.upper(), tmp_path) == [file]
    with pytest.raises(InputError, match=f"d.xml: SHA-256 is {SHA256}, but extract.sha256 is {'0' * 64}"):
        dump_files(str(file), "0" * 64, tmp_path)


def test_folder_holds_only_dumps_in_order(tmp_path: Path) -> None:
    names = ["b.xml", "a.xml.bz2", "c.xml-p10p20.bz2", "c.xml-p1-short", "notes.txt", "index.txt.bz2", "d.xml.7z"]
    for name in names:
        (tmp_path / name).touch()
    (tmp_path / "e.xml").mkdir()
    found = [file.name for file in dump_files(str(tmp_path), None, tmp_path)]
    assert found == ["a.xml.bz2", "b.xml", "c.xml-p1-short", "c.xml-p10p20.bz2"]
    with pytest.raises(ParamsError, match=r"extract\.sha256: must be null where the source is a folder"):
        dump_files(str(tmp_path), SHA256, tmp_path)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.xml: no such file or folder\."):
        dump_files(str(tmp_path / "gone.xml"), None, tmp_path)
    with pytest.raises(InputError, match=r"no \*\.xml or \*\.xml\.bz2 in this folder\."):
        dump_files(str(tmp_path), None, tmp_path)


def test_gensim_carries_a_dump(tmp_path: Path) -> None:
    name = "enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"
    (found,) = dump_files(f"gensim:{name}", None, tmp_path)
    assert (found.name, found.stat().st_size) == (name, 1_695_871)
    with pytest.raises(InputError, match="no such file or folder"):
        dump_files("gensim:nothing.xml", None, tmp_path)


class _Handler(http.server.BaseHTTPRequestHandler):
    """Serves BODY at /d.xml and at /whole.xml, there without resuming; hangs up after `most` bytes of an answer."""

    ranges: list[str]
    most: int

    def do_GET(self) -> None:
        start = int(re.findall(r"\d+", self.headers["Range"])[0])
        self.ranges.append(self.headers["Range"])
        if self.path == "/whole.xml":
            self.send_response(200)
            self.send_header("Content-Length", str(len(BODY)))
            self.end_headers()
            self.wfile.write(BODY[: self.most])
        elif self.path != "/d.xml":
            self.send_error(404)
        elif start >= len(BODY):
            self.send_error(416)
        else:
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(BODY) - 1}/{len(BODY)}")
            self.end_headers()
            self.wfile.write(BODY[start : start + self.most])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    _Handler.ranges, _Handler.most = [], len(BODY)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


def test_url_is_fetched_once(server: str, tmp_path: Path) -> None:
    for _ in range(2):
        (file,) = dump_files(f"{server}/d.xml", SHA256, tmp_path)
        assert file.read_bytes() == BODY
    assert _Handler.ranges == ["bytes=0-"]


@pytest.mark.parametrize("have", [1000, len(BODY)])
def test_a_fetch_that_was_cut_off_continues(server: str, tmp_path: Path, have: int) -> None:
    (tmp_path / f"{SHA256[:16]}-d.xml.part").write_bytes(BODY[:have])
    (file,) = dump_files(f"{server}/d.xml", SHA256, tmp_path)
    assert file.read_bytes() == BODY
    assert _Handler.ranges == [f"bytes={have}-"]


def test_a_fetch_that_the_server_cuts_off_is_kept_and_continued(server: str, tmp_path: Path) -> None:
    _Handler.most = 60_000
    with pytest.raises(InputError) as caught:
        dump_files(f"{server}/d.xml", SHA256, tmp_path)
    assert str(caught.value) == f"{server}/d.xml: cut off after 60000 of 102400 bytes; run again to continue."
    (file,) = dump_files(f"{server}/d.xml", SHA256, tmp_path)
    assert file.read_bytes() == BODY
    assert _Handler.ranges == ["bytes=0-", "bytes=60000-"]


def test_a_server_that_cannot_resume_starts_again(server: str, tmp_path: Path) -> None:
    (tmp_path / f"{SHA256[:16]}-whole.xml.part").write_bytes(b"x" * 100_000)
    _Handler.most = 1000
    with pytest.raises(InputError, match=r"cut off after 1000 of 102400 bytes; run again to continue\.$"):
        dump_files(f"{server}/whole.xml", SHA256, tmp_path)
    _Handler.most = len(BODY)
    (file,) = dump_files(f"{server}/whole.xml", SHA256, tmp_path)
    assert file.read_bytes() == BODY


def test_wrong_checksum_missing_checksum_missing_file(server: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"^{server}/d\.xml: SHA-256 is {SHA256}, but extract\.sha256 is 1+\.$"):
        dump_files(f"{server}/d.xml", "1" * 64, tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ParamsError, match=r"extract\.sha256: a URL needs its SHA-256 .* not None\."):
        dump_files(f"{server}/d.xml", None, tmp_path)
    with pytest.raises(InputError, match="/gone: the server answers 404 Not Found"):
        dump_files(f"{server}/gone", SHA256, tmp_path)
    with pytest.raises(InputError, match=r"http://127\.0\.0\.1:1/d\.xml: cannot be fetched"):
        dump_files("http://127.0.0.1:1/d.xml", SHA256, tmp_path)
