"""On a node of a Ray cluster: make a shard, or take part in a training, in a folder that is as the driver's.

That is the folder that all nodes share or, for shards, a folder of the node's own. `pipeline.core.cluster` sends this
module to the nodes as it stands, for a node may not have the project. So it imports nothing of it: what it is handed
imports the project, once the folder is there.
"""

import contextlib
import fcntl
import importlib.metadata
import io
import os
import pickle
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray

SUFFIXES = (".parquet", ".json")
"""A finished shard is two files: its table and its counts."""


@dataclass(frozen=True)
class Parcel:
    """A file that travels: its path in the folder, and references to its pieces in Ray's object store."""

    path: str
    pieces: Sequence[Any]


@dataclass(frozen=True)
class Place:
    """Where a stage's shards are made, and with what.

    If all nodes share a folder, `folder` is that of the driver, `code` is on the path, and `witness` is a file that the
    driver has put there; a training is always so. Else `witness` is empty: each node has a folder of its own, named
    `project` and `key`, with the code (a zip, `parcels[0]`) and the other parcels.
    """

    folder: str
    code: str
    variables: Mapping[str, str]
    versions: Mapping[str, str]
    witness: str = ""
    project: str = ""
    key: str = ""
    parcels: Sequence[Parcel] = ()


@dataclass(frozen=True)
class Shard:
    """Shard `index`: the paths that it reads, parcels of those that no other shard reads, and where its files go."""

    index: int
    inputs: Sequence[str]
    parcels: Sequence[Parcel]
    target: str


@dataclass(frozen=True)
class Answer:
    """What a node answers: a sentence if it cannot work at all, else the files that it does not share."""

    problem: str = ""
    files: Sequence[bytes] = ()


def make_shard(place: Place, pickled: bytes, shard: Shard) -> Answer:
    """Make `shard` by the pickled `make(index, inputs, target)` in a folder that is as the driver's."""
    os.environ.update(place.variables)
    if problem := _problem(place, ", or set BLEURT_RAY_FILES=store"):
        return Answer(problem)
    if place.witness:
        _enter(Path(place.folder), place.code)
        _make(pickled, shard)
        return Answer()
    with _own_folder(place) as folder:
        _enter(folder, str(folder))
        for parcel in shard.parcels:
            _unpack(parcel, folder)
        try:
            _make(pickled, shard)
            return Answer(files=[Path(shard.target).with_suffix(suffix).read_bytes() for suffix in SUFFIXES])
        finally:
            for name in [*(parcel.path for parcel in shard.parcels), *(shard.target + suffix for suffix in SUFFIXES)]:
                Path(name).unlink(missing_ok=True)


def train(place: Place, pickled: bytes, arguments: Sequence[str], ranked: Mapping[str, str]) -> Answer:
    """Call the pickled `main()` of a training stage, with `arguments` as `sys.argv`, as one of several processes.

    `ranked` are the variables that torchrun would set; the process ends after the call, so that nothing keeps them.
    """
    os.environ.update({**place.variables, **ranked})
    if problem := _problem(place):
        return Answer(problem)
    _enter(Path(place.folder), place.code)
    sys.argv[:] = arguments
    pickle.loads(pickled)()  # from our own driver
    return Answer()


def _problem(place: Place, otherwise: str = "") -> str:
    """Why this node cannot work in `place`, as a sentence without its full stop; empty if it can."""
    here = ray.util.get_node_ip_address()
    for name, version in place.versions.items():
        found = _version(name)
        if found != version:
            return f"the node {here} has {name} {found}, and the stage was started with {version}"
    if place.witness and not Path(place.folder, place.witness).exists():
        return f"the node {here} does not see the folder {place.folder}; let all nodes share it{otherwise}"
    return ""


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "(none)"


def _enter(folder: Path, code: str) -> None:
    os.chdir(folder)
    if sys.path[0] != code:
        sys.path.insert(0, code)


def _make(pickled: bytes, shard: Shard) -> None:
    make: Callable[[int, Sequence[Path], Path], None] = pickle.loads(pickled)  # from our own driver
    make(shard.index, [Path(name) for name in shard.inputs], Path(shard.target))


@contextlib.contextmanager
def _own_folder(place: Place) -> Iterator[Path]:
    """This node's folder with all parcels in it. Folders of the project's earlier jobs that nobody uses are removed."""
    top = Path(tempfile.gettempdir(), f"bleurt-{os.getuid()}")
    top.mkdir(mode=0o700, exist_ok=True)
    folder = top / f"{place.project}-{place.key}"
    with Path(f"{folder}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".placed").exists():
            _remove_unused(top, place.project, folder)
            folder.mkdir(exist_ok=True)
            code, *files = place.parcels
            with zipfile.ZipFile(io.BytesIO(b"".join(map(ray.get, code.pieces)))) as archive:
                archive.extractall(folder)
            for parcel in files:
                _unpack(parcel, folder)
            (folder / ".placed").touch()
        fcntl.flock(lock, fcntl.LOCK_SH)  # in use: by all workers of this node at once
        yield folder


def _remove_unused(top: Path, project: str, keep: Path) -> None:
    for other in top.glob(f"{project}-*.lock"):
        with other.open("w") as lock, contextlib.suppress(BlockingIOError):
            if other.with_suffix("") != keep:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(other.with_suffix(""), ignore_errors=True)
                other.unlink(missing_ok=True)


def _unpack(parcel: Parcel, folder: Path) -> None:
    file = folder / parcel.path
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    with temporary.open("wb") as stream:
        for piece in parcel.pieces:
            stream.write(ray.get(piece))
    temporary.replace(file)
