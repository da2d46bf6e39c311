"""Archives and downloads: what comes out, and what may not."""

import errno
import hashlib
import http.server
import io
import re
import socket
import struct
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.core import work
from pipeline.core.errors import InputError, StorageError
from pipeline.files import download
from pipeline.files.fetch import fetched, local


def tar_of(file: Path, *members: tarfile.TarInfo, content: bytes = b"hello\n") -> Path:
    with tarfile.open(file, "w:gz") as tar:
        for member in members:
            member.size = len(content) if member.isfile() else 0
            tar.addfile(member, io.BytesIO(content) if member.isfile() else None)
    return file


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def test_tar_and_zip_are_unpacked_once_and_plain_places_stay(tmp_path: Path) -> None:
    tar = tar_of(tmp_path / "a.tgz", member("sub/text.txt"))
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("sub/text.txt", "hello\n")
    for file in (tar, tmp_path / "a.zip"):
        folder = local(str(file), None)
        assert folder.parent == work.WORK / "archives"
        assert (folder / "sub" / "text.txt").read_bytes() == b"hello\n"
        assert [path.name for path in folder.parent.iterdir() if path.name.startswith(".")] == []
    (local(str(tar), None) / "seen").touch()
    assert (local(str(tar), None) / "seen").exists()
    assert local(str(tmp_path), None) == tmp_path


@pytest.mark.parametrize(
    "bad",
    [
        member("../out.txt"),
        member("sub/../../out.txt"),
        member("link", tarfile.SYMTYPE, "../../../out.txt"),
        member("link", tarfile.SYMTYPE, "/etc/passwd"),
        member("link", tarfile.LNKTYPE, "../out.txt"),
        member("device", tarfile.CHRTYPE),
        member("pipe", tarfile.FIFOTYPE),
    ],
    ids=lambda info: f"{info.name}-{info.type.decode()}",
)
def test_a_tar_member_that_leaves_its_folder_is_refused_and_nothing_stays(tmp_path: Path, bad: tarfile.TarInfo) -> None:
    file = tar_of(tmp_path / "a.tar.gz", member("good.txt"), bad)
    with pytest.raises(InputError, match=r"a\.tar\.gz: holds a member that must not be unpacked: '"):
        local(str(file), None)
    assert list((work.WORK / "archives").iterdir()) == []
    assert not list(tmp_path.rglob("out.txt"))


@pytest.mark.parametrize("name", ["../out.txt", "/out.txt", "a/../../out.txt"])
def test_a_zip_member_that_leaves_its_folder_is_refused(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(name, "bad")
    with pytest.raises(InputError, match=r"a\.zip: holds a member that must not be unpacked: '"):
        local(str(tmp_path / "a.zip"), None)
    assert list((work.WORK / "archives").iterdir()) == []


@pytest.mark.parametrize("name", ["a.tgz", "a.zip"])
def test_a_broken_archive_is_one_sentence(tmp_path: Path, name: str) -> None:
    whole = tar_of(tmp_path / "whole.tgz", member("text.txt"), content=hashlib.sha512(b"x").digest() * 500).read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=rf"{name}: not a whole archive \(.+\)\.$"):
        local(str(tmp_path / name), None)


def test_a_wrong_sum_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    file = tar_of(tmp_path / "a.tgz", member("text.txt"))
    found = hashlib.sha256(file.read_bytes()).hexdigest()
    assert (local(str(file), found) / "text.txt").exists()
    with pytest.raises(InputError, match=f"a.tgz: has SHA-256 {found}, expected 00"):
        local(str(file), "0" * 64)
    with pytest.raises(InputError, match=r"is a folder, which has no SHA-256; give null: '00"):
        local(str(tmp_path), "0" * 64)
    with pytest.raises(InputError, match=r"none\.tgz: no such file or folder\."):
        local(str(tmp_path / "none.tgz"), None)


BODY = bytes(range(256)) * 400
SHA256 = hashlib.sha256(BODY).hexdigest()


class _Handler(http.server.BaseHTTPRequestHandler):
    """Serves `files`, in parts if it is asked to; hangs up after `most` bytes of an answer, by a reset if `resets`.

    What lies at /whole… is always sent as a whole. A file has the ETag `tag`, if there is one.
    """

    files: dict[str, bytes]
    ranges: list[str]
    most: int
    tag: str
    resets: bool
    failures: list[tuple[int, dict[str, str]]]  # status and headers of the next answers

    def do_GET(self) -> None:
        body = self.files.get(self.path)
        start = int(re.findall(r"\d+", self.headers["Range"])[0])
        self.ranges.append(self.headers["Range"])
        if self.failures:
            status, headers = self.failures.pop(0)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            return self.end_headers()
        if body is None:
            return self.send_error(404)
        if self.path.startswith("/whole") or self.headers.get("If-Range", self.tag) != self.tag:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            start = 0
        elif start >= len(body):
            return self.send_error(416)
        else:
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        if self.tag:
            self.send_header("ETag", self.tag)
        self.end_headers()
        self.wfile.write(body[start : start + self.most])
        if self.resets:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        return None

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a server on this machine that has BODY at /d.xml and at /whole.xml."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(download, "WAIT_SECONDS", ())
    monkeypatch.delenv("BLEURT_MIRROR", raising=False)
    _Handler.failures = []
    _Handler.files = {"/d.xml": BODY, "/whole.xml": BODY}
    _Handler.ranges, _Handler.most, _Handler.tag, _Handler.resets = [], len(BODY), "", False
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


def downloads() -> list[Path]:
    """Every file that a download has left."""
    return sorted(path for path in (work.WORK / "downloads").rglob("*") if path.is_file())


def begun(url: str, name: str, content: bytes) -> None:
    """As a killed download leaves the first part of a file."""
    part = work.WORK / "downloads" / hashlib.sha256(url.encode()).hexdigest()[:24] / f"{name}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(content)


def test_a_url_is_fetched_once_verified_and_unpacked(
    server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    served = tar_of(tmp_path / "a.tgz", member("text.txt")).read_bytes()
    _Handler.files["/a.tgz"] = served
    found = hashlib.sha256(served).hexdigest()
    with pytest.raises(InputError, match=f"/a.tgz: has SHA-256 {found}, expected 11"):
        local(f"{server}/a.tgz", "1" * 64)
    assert downloads() == []
    assert (local(f"{server}/a.tgz", found) / "text.txt").read_bytes() == b"hello\n"
    del _Handler.files["/a.tgz"]
    assert (local(f"{server}/a.tgz", None) / "text.txt").read_bytes() == b"hello\n"
    assert f"has SHA-256 {found}; pin it in params.yaml" in capsys.readouterr().out
    with pytest.raises(InputError, match=r"/a\.tgz: has SHA-256 .{64}, expected 11"):
        local(f"{server}/a.tgz", "1" * 64)
    assert (fetched(f"{server}/a.tgz", found).name, fetched(f"{server}/a.tgz", found).is_file()) == ("a.tgz", True)


@pytest.mark.parametrize("sha256", [SHA256, SHA256.upper(), None])
def test_a_url_is_asked_once(server: str, sha256: str | None) -> None:
    for _ in range(2):
        file = local(f"{server}/d.xml", sha256)
        assert (file.name, file.read_bytes()) == ("d.xml", BODY)
    assert _Handler.ranges == ["bytes=0-"]
    assert downloads() == [file]


@pytest.mark.parametrize("have", [1000, len(BODY)])
def test_a_download_that_was_killed_continues(server: str, have: int) -> None:
    begun(f"{server}/d.xml", "d.xml", BODY[:have])
    file = local(f"{server}/d.xml", SHA256)
    assert file.read_bytes() == BODY
    assert _Handler.ranges == [f"bytes={have}-"]
    assert downloads() == [file]


@pytest.mark.parametrize(("sha256", "tag"), [(SHA256, ""), (SHA256, '"1"'), (None, '"1"')])
def test_a_download_that_the_server_cuts_off_is_kept_and_continued(server: str, sha256: str | None, tag: str) -> None:
    _Handler.most, _Handler.tag = 60_000, tag
    with pytest.raises(InputError) as caught:
        local(f"{server}/d.xml", sha256)
    assert str(caught.value) == f"{server}/d.xml: cut off after 60000 of 102400 bytes; run again to continue."
    file = local(f"{server}/d.xml", sha256)
    assert file.read_bytes() == BODY
    assert _Handler.ranges == ["bytes=0-", "bytes=60000-"]
    assert downloads() == [file]


def test_a_connection_that_breaks_is_one_sentence_and_what_has_come_is_kept(server: str) -> None:
    _Handler.most, _Handler.resets = 60_000, True
    with pytest.raises(
        InputError, match=r"/d\.xml: cut off after \d+ of 102400 bytes( \(.+\))?; run again to continue"
    ):
        local(f"{server}/d.xml", SHA256)
    _Handler.most, _Handler.resets = len(BODY), False
    assert local(f"{server}/d.xml", SHA256).read_bytes() == BODY


@pytest.mark.parametrize(("tag", "second"), [("", "bytes=0-"), ('W/"1"', "bytes=0-"), ('"1"', "bytes=60000-")])
def test_without_a_sum_two_versions_of_a_file_are_never_joined(server: str, tag: str, second: str) -> None:
    _Handler.most, _Handler.tag = 60_000, tag
    with pytest.raises(InputError, match="cut off"):
        local(f"{server}/d.xml", None)
    changed = BODY[::-1]
    _Handler.files["/d.xml"], _Handler.most, _Handler.tag = changed, len(changed), tag.replace("1", "2")
    assert local(f"{server}/d.xml", None).read_bytes() == changed
    assert _Handler.ranges == ["bytes=0-", second]


def test_with_a_sum_two_versions_that_were_joined_are_removed(server: str) -> None:
    begun(f"{server}/d.xml", "d.xml", b"x" * 1000)
    with pytest.raises(InputError, match=rf"/d\.xml: has SHA-256 .+, expected {SHA256}\."):
        local(f"{server}/d.xml", SHA256)
    assert downloads() == []


def test_a_server_that_cannot_continue_starts_again(server: str) -> None:
    begun(f"{server}/whole.xml", "whole.xml", b"x" * 100_000)
    _Handler.most = 1000
    with pytest.raises(InputError, match=r"cut off after 1000 of 102400 bytes; run again to continue\.$"):
        local(f"{server}/whole.xml", SHA256)
    _Handler.most = len(BODY)
    assert local(f"{server}/whole.xml", SHA256).read_bytes() == BODY


def test_nothing_at_the_url(server: str) -> None:
    advice = "fetch it by hand and give the file's path instead"
    with pytest.raises(InputError, match=rf"/b\.tgz: could not be downloaded \(HTTP Error 404: .+\); {advice}\.$"):
        local(f"{server}/b.tgz", None)
    with pytest.raises(InputError, match=rf"^http://127\.0\.0\.1:1/d\.xml: could not be downloaded \(.+\); {advice}"):
        local("http://127.0.0.1:1/d.xml", SHA256)
    assert downloads() == []


def test_a_full_disk_is_one_sentence(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> Iterator[bytes]:
        yield BODY[:1000]
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(download, "_chunks", fails)
    with pytest.raises(StorageError, match=r"d\.xml\.part: could not be written, No space left on device\.$"):
        local(f"{server}/d.xml", SHA256)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Pauses are of no time; the list fills with how long they were to be."""
    found: list[float] = []
    monkeypatch.setattr(download, "WAIT_SECONDS", (1.0, 2.0))
    monkeypatch.setattr("time.sleep", found.append)
    return found


def test_a_busy_server_is_asked_again_as_it_wishes(server: str, waits: list[float]) -> None:
    _Handler.failures = [(503, {}), (429, {"Retry-After": "7"})]
    assert local(f"{server}/d.xml", SHA256).read_bytes() == BODY
    assert waits == [1.0, 7.0]
    assert _Handler.ranges == 3 * ["bytes=0-"]


def test_a_busy_server_is_not_asked_for_ever(server: str, waits: list[float]) -> None:
    _Handler.failures = 9 * [(503, {"Retry-After": "86400"})]
    with pytest.raises(InputError, match=r"/d\.xml: could not be downloaded \(HTTP Error 503: .+\); fetch it by hand"):
        local(f"{server}/d.xml", SHA256)
    assert waits == 2 * [download.LONGEST_WAIT_SECONDS]
    assert downloads() == []


def test_a_file_that_is_not_there_is_asked_for_once(server: str, waits: list[float]) -> None:
    with pytest.raises(InputError, match="HTTP Error 404"):
        local(f"{server}/b.tgz", SHA256)
    assert (waits, _Handler.ranges) == ([], ["bytes=0-"])


def test_a_cut_connection_goes_on_as_long_as_bytes_come(server: str, waits: list[float]) -> None:
    _Handler.most = 20_000
    file = local(f"{server}/d.xml", SHA256)
    assert file.read_bytes() == BODY
    assert _Handler.ranges == [f"bytes={start}-" for start in range(0, len(BODY), 20_000)]
    assert waits == 5 * [1.0]
    assert downloads() == [file]


def test_a_cut_connection_that_begins_anew_each_time_ends(server: str, waits: list[float]) -> None:
    """Without a sum and a version nobody knows whether the parts go together."""
    _Handler.most = 20_000
    with pytest.raises(InputError, match=r"cut off after 20000 of 102400 bytes; run again to continue\.$"):
        local(f"{server}/d.xml", None)
    assert _Handler.ranges == 3 * ["bytes=0-"]


def test_silence_is_a_failure_that_may_pass(server: str, waits: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    ask, silent = download.urllib.request.urlopen, [TimeoutError("timed out")]

    def opened(*arguments: object, timeout: float) -> object:
        assert timeout == download.TIMEOUT_SECONDS
        if silent:
            raise silent.pop()
        return ask(*arguments, timeout=timeout)

    monkeypatch.setattr("urllib.request.urlopen", opened)
    assert local(f"{server}/d.xml", SHA256).read_bytes() == BODY
    assert waits == [1.0]


def test_a_mirror_stands_for_every_host(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _Handler.files = {"/data.example.org/a/d.xml": BODY}
    monkeypatch.setenv("BLEURT_MIRROR", f"{server}/")
    assert local("https://data.example.org/a/d.xml", SHA256).read_bytes() == BODY
    assert download.remote("https://data.example.org/a/d.xml").size == len(BODY)
    with pytest.raises(InputError, match=rf"^{server}/data\.example\.org/b\.xml: could not be downloaded"):
        local("https://data.example.org/b.xml", SHA256)


def test_a_folder_may_be_the_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data.example.org").mkdir()
    file = tar_of(tmp_path / "data.example.org" / "a.tgz", member("text.txt"))
    monkeypatch.setenv("BLEURT_MIRROR", str(tmp_path))
    url, found = "https://data.example.org/a.tgz", hashlib.sha256(file.read_bytes()).hexdigest()
    assert fetched(url, found) == file
    assert (local(url, None) / "text.txt").read_bytes() == b"hello\n"
    with pytest.raises(InputError, match=r"a\.tgz: has SHA-256 .+, expected 00"):
        local(url, "0" * 64)
    with pytest.raises(InputError, match=r"^https://data\.example\.org/b\.tgz: is not in the mirror BLEURT_MIRROR: "):
        local("https://data.example.org/b.tgz", None)
