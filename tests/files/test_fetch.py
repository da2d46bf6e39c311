"""Archives and downloads: what comes out, and what may not."""

import functools
import hashlib
import http.server
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.core import work
from pipeline.core.errors import InputError
from pipeline.files.fetch import local


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


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder and the URL under which it is served."""
    folder = tmp_path / "site"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_url_is_fetched_once_verified_and_unpacked(
    site: tuple[Path, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    folder, url = site
    served = tar_of(folder / "a.tgz", member("text.txt"))
    found = hashlib.sha256(served.read_bytes()).hexdigest()
    with pytest.raises(InputError, match=f"/a.tgz: has SHA-256 {found}, expected 11"):
        local(f"{url}/a.tgz", "1" * 64)
    assert not [path for path in (work.WORK / "downloads").rglob("*") if path.is_file()]
    assert (local(f"{url}/a.tgz", found) / "text.txt").read_bytes() == b"hello\n"
    served.unlink()
    assert (local(f"{url}/a.tgz", None) / "text.txt").read_bytes() == b"hello\n"
    assert f"has SHA-256 {found}; pin it in params.yaml" in capsys.readouterr().out
    with pytest.raises(InputError, match=r"/b\.tgz: could not be downloaded \(HTTP Error 404: .+\); fetch it by hand"):
        local(f"{url}/b.tgz", None)
