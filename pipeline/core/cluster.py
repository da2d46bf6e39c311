"""Shards as tasks on a Ray cluster that exists (BLEURT_ENGINE=ray): submitted, tried again, named when they fail.

A task is one shard, one core and BLEURT_RAY_GPUS GPUs. It is tried `ATTEMPTS` times: a worker that is killed, a node
that is lost or an error that is no BleurtError costs an attempt; a BleurtError ends the stage at once. A node that
joins late gets tasks as soon as it is there. By BLEURT_RAY_FILES nodes work in the driver's folder, which all share,
or inputs, models, code and results travel through Ray's object store (`pipeline.core.node`).
"""

import contextlib
import hashlib
import importlib.metadata
import io
import os
import platform
import uuid
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.core import runtime
from pipeline.core.errors import BleurtError, ParamsError, StorageError
from pipeline.core.modules import ROOT
from pipeline.core.shards import replacing, writing

ATTEMPTS = 3

PIECE_BYTES = 64 * 2**20
"""Bytes of one object in Ray's store; a file is as many of them as it takes."""

PATIENCE_SECONDS = 20.0
"""A stage that waits so long for a first result says if no node is large enough for a task."""

PASSED = ("BLEURT_", "HF_", "TRANSFORMERS_", "TOKENIZERS_", "OMP_", "MKL_", "CT2_", "XDG_CACHE_HOME", "TORCH")
"""The variables that tasks get begin so. They travel as a task's argument: Ray's dashboard does not show them."""


@dataclass(frozen=True)
class Task:
    """Shard `index` of a stage: what it reads, and the name of its two files without the suffix."""

    index: int
    inputs: Sequence[Path]
    target: Path


@dataclass(frozen=True)
class Stage:
    """What all tasks share: a name for people, `make(index, inputs, target)`, and the files that all of them read.

    `fingerprint` changes with the code, the params and the inputs; `work` is the folder of unfinished shards.
    """

    name: str
    make: Callable[[int, Sequence[Path], Path], object]
    needs: Sequence[Path]
    fingerprint: str
    on_device: bool
    work: Path


def run(stage: Stage, tasks: Sequence[Task]) -> Iterator[int]:
    """Make all shards; yields the index of each as soon as its two files are there."""
    stored, gpus = runtime.ray_files() == "store", runtime.ray_gpus() if stage.on_device else 0.0
    variables = variables_of_a_task(gpus)
    ray = joined()
    with contextlib.nullcontext("") if stored else witness_in(stage.work) as witness:
        submit = _submitter(ray, stage, tasks, gpus, variables, witness)
        yield from _settle_all(ray, stage, tasks, submit, gpus)


@contextlib.contextmanager
def witness_in(folder: Path) -> Iterator[str]:
    """Path of a file in `folder`, by which a node knows that it sees this process's folder."""
    witness = folder / f".witness-{uuid.uuid4().hex}"
    try:
        with writing(witness):
            folder.mkdir(parents=True, exist_ok=True)
            witness.touch()
        yield str(witness)
    finally:
        witness.unlink(missing_ok=True)


def place_of(variables: Mapping[str, str], witness: str, **more: Any) -> Any:
    """The `pipeline.core.node.Place` that a node has to be as: this process's folder, code and packages."""
    from pipeline.core import node

    versions = {name: importlib.metadata.version(name) for name in runtime.PACKAGES if name != "dvc"}
    return node.Place(str(Path.cwd()), str(ROOT), variables, versions, witness, **more)


def _submitter(
    ray: Any, stage: Stage, tasks: Sequence[Task], gpus: float, variables: Mapping[str, str], witness: str
) -> Callable[[Task], Any]:
    """A function that submits a task and gives the reference of its answer."""
    from pipeline.core import node

    ray.cloudpickle.register_pickle_by_value(node)
    shipment = None if witness else _Shipment(ray, tasks, stage)
    project = hashlib.sha256(f"{platform.node()} {Path.cwd()} {stage.name}".encode()).hexdigest()[:12]
    parcels = shipment.common if shipment else ()
    place = ray.put(place_of(variables, witness, project=project, key=stage.fingerprint, parcels=parcels))
    pickled = ray.put(ray.cloudpickle.dumps(stage.make))
    remote = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=0)(node.make_shard)
    # A worker imports the code of one folder; a job whose nodes have folders of their own has workers of its own.
    options = {"runtime_env": {"env_vars": {"BLEURT_JOB": stage.fingerprint}}} if shipment else {}

    def submit(task: Task) -> Any:
        plain = node.Shard(task.index, [str(path) for path in task.inputs], (), str(task.target))
        shard = shipment.shard(task) if shipment else plain
        return remote.options(name=f"{stage.name}: shard {task.index}", **options).remote(place, pickled, shard)

    return submit


def _settle_all(
    ray: Any, stage: Stage, tasks: Sequence[Task], submit: Callable[[Task], Any], gpus: float
) -> Iterator[int]:
    todo, attempts, running, told = list(reversed(tasks)), Counter[int](), dict[Any, Task](), False
    try:
        while todo or running:
            while todo and len(running) < _window(ray):
                task = todo.pop()
                running[submit(task)] = task
            finished, _ = ray.wait(list(running), timeout=PATIENCE_SECONDS)
            if not finished and not told:
                told = _tell_of_want(ray, stage.name, gpus)
            for reference in finished:
                task = running.pop(reference)
                failure = _settled(ray, reference, task)
                if not failure:
                    yield task.index
                    continue
                attempts[task.index] += 1
                words = f"{stage.name}: shard {task.index} ({', '.join(map(str, task.inputs))})"
                if attempts[task.index] == ATTEMPTS:
                    raise BleurtError(f"{words} failed {ATTEMPTS} times on the cluster; the last time: {failure}.")
                print(f"{words} failed: {failure}; attempt {attempts[task.index] + 1} of {ATTEMPTS}", flush=True)
                todo.append(task)
    finally:
        for reference in running:
            ray.cancel(reference, force=True)


def joined() -> Any:
    """The package ray, joined to the cluster at RAY_ADDRESS."""
    try:
        import ray
    except ImportError as error:
        raise ParamsError("BLEURT_ENGINE is ray, but the package ray is not installed (pip install ray).") from error
    address = os.environ.get("RAY_ADDRESS", "") or "auto"
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # one failure is told, not those of tasks that it ended
    try:
        if not ray.is_initialized():
            ray.init(address=address, logging_level="warning", log_to_driver=True)
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")[:160] if str(error).strip() else type(error).__name__
        raise ParamsError(
            f"BLEURT_ENGINE is ray, but no cluster answers at RAY_ADDRESS={address} ({reason}); "
            "ray start --head starts one."
        ) from error
    return ray


def variables_of_a_task(gpus: float) -> dict[str, str]:
    """This process's variables for the tasks; the device is what a task asks for, not what is here."""
    wanted = os.environ.get("BLEURT_DEVICE", "")
    if ":" in wanted:
        raise ParamsError(f"BLEURT_DEVICE must be cpu, cuda or mps on a Ray cluster, not {wanted!r}.")
    if wanted == "cuda" and not gpus:
        raise ParamsError("BLEURT_DEVICE is cuda, but a task on the Ray cluster has no GPU: set BLEURT_RAY_GPUS.")
    found = {name: value for name, value in os.environ.items() if name.startswith(PASSED)}
    found.pop("BLEURT_WORKERS", None)
    return found | {"BLEURT_DEVICE": wanted or ("cuda" if gpus else "cpu"), "TOKENIZERS_PARALLELISM": "false"}


def _window(ray: Any) -> int:
    """Tasks that are submitted at once: enough for every core, few enough that inputs do not fill the object store."""
    return 2 * int(ray.cluster_resources().get("CPU", 0)) + 8


def _tell_of_want(ray: Any, name: str, gpus: float) -> bool:
    """Say so if no node has what a task asks for; whether it was said."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if any(node.get("CPU", 0) >= 1 and node.get("GPU", 0) >= gpus for node in nodes):
        return False
    asked = f"1 core and {gpus:g} GPUs (BLEURT_RAY_GPUS)" if gpus else "1 core"
    print(f"{name}: no node of the cluster has {asked}; waiting for one that joins", flush=True)
    return True


def _settled(ray: Any, reference: Any, task: Task) -> str:
    """Put a result in its place; empty, or why the attempt failed. A BleurtError is raised."""
    answer, failure = answer_of(ray, reference)
    if failure:
        return failure
    for suffix, found in zip((".parquet", ".json"), answer.files, strict=bool(answer.files)):
        with replacing(task.target.with_suffix(suffix)) as temporary:
            temporary.write_bytes(found)
    return ""


def answer_of(ray: Any, reference: Any) -> tuple[Any, str]:
    """A task's `pipeline.core.node.Answer`, or why the attempt failed. A BleurtError is raised."""
    try:
        answer = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, BleurtError):
            raise error.cause from None
        return None, _first_line(f"{type(error.cause).__name__}: {error.cause}")
    except ray.exceptions.RayError as error:
        return None, _first_line(f"{type(error).__name__}: {error}")
    if answer.problem:
        raise StorageError(f"{answer.problem}.")
    return answer, ""


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0].rstrip(". ")[:200]


class _Shipment:
    """What travels: code and files that several tasks read as `common`, the rest with the task that reads it."""

    def __init__(self, ray: Any, tasks: Sequence[Task], stage: Stage) -> None:
        from pipeline.core import node

        self.ray, self.node = ray, node
        times = Counter(path for task in tasks for path in dict.fromkeys(task.inputs))
        self.shared = {path for path, count in times.items() if count > 1}
        needs = [path for need in stage.needs for path in (need, *_origin(need))]
        own = [path for path in needs if _place_of(path)]  # others are a node's own: a package, a hub's cache
        self.common = [node.Parcel("", [ray.put(_zipped_code())])]
        self.common += self._parcels([*dict.fromkeys(own), *sorted(self.shared - set(own))])

    def shard(self, task: Task) -> Any:
        """`task` with its parcels, for a node's folder."""
        own = [path for path in dict.fromkeys(task.inputs) if path not in self.shared]
        names = [str(_destination(path)) for path in task.inputs]
        return self.node.Shard(task.index, names, self._parcels(own), f".made/{task.target.name}")

    def _parcels(self, paths: Sequence[Path]) -> list[Any]:
        found = []
        for path in paths:
            for file in [path] if path.is_file() else sorted(f for f in path.rglob("*") if f.is_file()):
                inside = _destination(path) / file.relative_to(path)
                found.append(self.node.Parcel(str(inside), [self.ray.put(piece) for piece in _pieces(file)]))
        return found


def _place_of(path: Path) -> Path | None:
    """`path` within the folder in which the stage was started, or within the project's; None elsewhere."""
    absolute = path.absolute()
    if ".." in absolute.parts:
        return None
    for base in (Path.cwd(), ROOT):
        if absolute.is_relative_to(base):
            return absolute.relative_to(base)
    return None


def _destination(path: Path) -> Path:
    """Where an input lies in a node's folder; one from elsewhere has a folder named after its path."""
    elsewhere = hashlib.sha256(bytes(path.absolute())).hexdigest()[:12]
    return _place_of(path) or Path("elsewhere", elsewhere, path.name)


def _origin(model: Path) -> list[Path]:
    """The bundled folder of a model whose whole form lies in `pipeline.core.packages.store`."""
    folder = ROOT / "models" / "bundled" / model.name.rpartition("-")[0]
    return [folder] if model.parent == ROOT / ".work" / "packages" and folder.is_dir() else []


def _pieces(file: Path) -> Iterator[bytes]:
    with file.open("rb") as stream:
        while piece := stream.read(PIECE_BYTES):
            yield piece


def _zipped_code() -> bytes:
    """The package `pipeline` as a zip with paths from the project's folder, and what makes the folder a checkout."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in [ROOT / "pyproject.toml", *sorted((ROOT / "pipeline").rglob("*"))]:
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, file.relative_to(ROOT))
    return buffer.getvalue()
