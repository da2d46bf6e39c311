"""A hub and a web server on the loopback address, with faults on demand: enough for huggingface_hub and datasets.

It answers as the hub does: a large file (weights) is stored by its SHA-256 and comes through a redirect, a small one by
its git number; both name the commit. Any other path is a file of the web: `/HOST/PATH` stands for `https://HOST/PATH`,
as behind BLEURT_MIRROR.
"""

import hashlib
import json
import re
import socket
import struct
import threading
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LARGE = (".safetensors", ".bin", ".h5", ".spm", ".parquet", ".ot", ".msgpack")
"""Endings of files that the hub keeps in its large storage."""

_API = re.compile(r"/api/(models|datasets)/([^/]+/[^/]+)(?:/(revision|tree|paths-info)/([^/?]+)(?:/(.*))?)?")
_RESOLVE = re.compile(r"/(datasets/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)")


@dataclass
class Repository:
    """Files by name of each revision; `gated`: None, or the status that answers who asks for its files."""

    revisions: dict[str, dict[str, bytes]]
    gated: int | None = None

    def commit(self, revision: str) -> str | None:
        """The commit of a branch, a tag or a commit; None if there is none."""
        commits = {name: _commit(files) for name, files in self.revisions.items()}
        return commits.get(revision) or (revision if revision in commits.values() else None)

    def files(self, commit: str) -> dict[str, bytes]:
        """The files of a commit."""
        return next(files for files in self.revisions.values() if _commit(files) == commit)


@dataclass
class Fault:
    """What goes wrong with the next `times` requests whose path matches: a status, a cut, a wait, or other bytes.

    `skip`: so many matching requests pass before.
    """

    path: str
    times: int = 1
    method: str = "GET"
    status: int | None = None
    cut_after: int | None = None
    reset: bool = False
    wait_seconds: float = 0.0
    spoil: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Hub:
    """What is served, what goes wrong, and what was asked for, as "METHOD PATH RANGE"."""

    models: dict[str, Repository] = field(default_factory=dict)
    datasets: dict[str, Repository] = field(default_factory=dict)
    web: dict[str, bytes] = field(default_factory=dict)
    address: str = ""
    storage: str = ""  # another host, as the hub's large files lie elsewhere
    faults: list[Fault] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fault(self, method: str, path: str) -> Fault | None:
        """The fault of this request, which counts down."""
        with self.lock:
            for fault in self.faults:
                if fault.times > 0 and fault.method == method and re.search(fault.path, path):
                    fault.times -= 1
                    return fault
        return None

    def times_asked(self, pattern: str) -> int:
        """How many requests matched."""
        return sum(re.search(pattern, line) is not None for line in self.asked)


def _commit(files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha1()
    for name in sorted(files):
        digest.update(name.encode() + b"\0" + hashlib.sha1(files[name]).digest())
    return digest.hexdigest()


def git_number(content: bytes) -> str:
    """How git names a file."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def is_large(name: str) -> bool:
    return name.endswith(LARGE)


def _entry(name: str, content: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "file", "path": name, "size": len(content), "oid": git_number(content)}
    if is_large(name):
        found["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
    return found


def _sibling(name: str, content: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {"rfilename": name, "size": len(content), "blobId": git_number(content)}
    if is_large(name):
        found["lfs"] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
    return found


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._handle("GET")

    def do_HEAD(self) -> None:
        self._handle("HEAD")

    def do_POST(self) -> None:
        self._handle("POST")

    def _handle(self, method: str) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.fault = self.hub.fault(method, self.path)
        with self.hub.lock:
            self.hub.asked.append(f"{method} {self.path} {self.headers.get('Range', '')}".strip())
        if self.fault is not None:
            time.sleep(self.fault.wait_seconds)
            if self.fault.status is not None:
                return self._send(self.fault.status, b"", dict(self.fault.headers))
        path, _, query = self.path.partition("?")
        if match := _API.fullmatch(path):
            return self._api(*match.groups(), query=query)
        if match := _RESOLVE.fullmatch(path):
            kind, name, revision, file = match.groups()
            return self._resolve("datasets" if kind else "models", name, revision, urllib.parse.unquote(file))
        if path.startswith("/large/"):
            content = self._large(path.rpartition("/")[2])
            return self._missing("EntryNotFound") if content is None else self._file(content, {})
        content = self.hub.web.get(urllib.parse.unquote(path))
        if content is None:
            return self._missing("")
        return self._file(content, {"ETag": f'"{hashlib.sha1(content).hexdigest()}"'})

    def _repository(self, kind: str, name: str) -> Repository | None:
        return getattr(self.hub, kind).get(name)

    def _large(self, sha256: str) -> bytes | None:
        for repository in (*self.hub.models.values(), *self.hub.datasets.values()):
            for files in repository.revisions.values():
                for content in files.values():
                    if hashlib.sha256(content).hexdigest() == sha256:
                        return content
        return None

    def _api(
        self, kind: str, name: str, what: str | None, revision: str | None, folder: str | None, query: str
    ) -> None:
        repository = self._repository(kind, name)
        if repository is None:
            return self._missing("RepoNotFound")
        commit = repository.commit(urllib.parse.unquote(revision or "main"))
        if commit is None:
            return self._missing("RevisionNotFound")
        files = repository.files(commit)
        if what in (None, "revision"):
            gated = False if repository.gated is None else "auto"
            listed = [_sibling(name, content) for name, content in sorted(files.items())]
            facts = {"id": name, "modelId": name, "sha": commit, "gated": gated, "private": False, "tags": []}
            return self._json({**facts, "downloads": 0, "likes": 0, "siblings": listed})
        if what == "tree":
            inside = [(name, content) for name, content in sorted(files.items()) if name.startswith(folder or "")]
            if "recursive=true" not in query.lower():
                inside = [(name, content) for name, content in inside if "/" not in name]
            return self._json([_entry(*one) for one in inside])
        wanted = urllib.parse.parse_qs(self.body.decode()).get("paths", [])
        return self._json([_entry(name, files[name]) for name in wanted if name in files])

    def _resolve(self, kind: str, name: str, revision: str, file: str) -> None:
        repository = self._repository(kind, name)
        if repository is None:
            return self._missing("RepoNotFound")
        commit = repository.commit(urllib.parse.unquote(revision))
        if commit is None:
            return self._missing("RevisionNotFound")
        if repository.gated is not None:
            return self._send(repository.gated, b"", {"X-Error-Code": "GatedRepo", "X-Error-Message": "restricted"})
        content = repository.files(commit).get(file)
        if content is None:
            return self._missing("EntryNotFound", {"X-Repo-Commit": commit})
        headers = {"X-Repo-Commit": commit, "ETag": f'"{git_number(content)}"'}
        if not is_large(file):
            return self._file(content, headers)
        sha256 = hashlib.sha256(content).hexdigest()
        linked = {"X-Linked-Etag": f'"{sha256}"', "X-Linked-Size": str(len(content))}
        return self._send(302, b"", {**headers, **linked, "Location": f"{self.hub.storage}/large/{sha256}"})

    def _file(self, content: bytes, headers: dict[str, str]) -> None:
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        etag = headers.get("ETag", "")
        if found is None or self.headers.get("If-Range", etag) != etag:
            return self._send(200, content, {"Accept-Ranges": "bytes", **headers})
        start, end = int(found[1]), min(int(found[2] or len(content)), len(content) - 1)
        if start >= len(content):
            return self._send(416, b"", {"Content-Range": f"bytes */{len(content)}"})
        part = {"Content-Range": f"bytes {start}-{end}/{len(content)}", **headers}
        return self._send(206, content[start : end + 1], part)

    def _json(self, value: object) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _missing(self, code: str, headers: Mapping[str, str] = {}) -> None:
        if self.command != "HEAD" or not code:
            self.hub.unknown.append(f"{self.command} {self.path}")
        self._send(404, b"", {**headers, "X-Error-Code": code} if code else dict(headers))

    def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        if self.fault is not None and self.fault.spoil:
            body = bytes(len(body) * [0x2A])
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if self.fault is None or self.fault.cut_after is None:
            self.wfile.write(body)
            return
        self.wfile.write(body[: self.fault.cut_after])
        self.wfile.flush()
        self.close_connection = True
        if self.fault.reset:
            time.sleep(0.05)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@contextmanager
def serving(hub: Hub) -> Iterator[str]:
    """The address at which `hub` is served."""
    handler = type("Handler", (_Handler,), {"hub": hub})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        running.daemon_threads = True
        hub.address = f"http://127.0.0.1:{running.server_address[1]}"
        hub.storage = hub.address.replace("127.0.0.1", "localhost")
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield hub.address
        running.shutdown()
