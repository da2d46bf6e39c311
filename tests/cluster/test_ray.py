"""BLEURT_ENGINE=ray on a real cluster of three nodes: the same bytes as local, whatever is killed, late or missing."""

import importlib.metadata
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pipeline.core import cluster, work
from pipeline.core.errors import BleurtError, InputError, ParamsError, StorageError
from pipeline.core.records import SEGMENTS
from pipeline.core.shards import read_folder, table_of
from pipeline.core.work import Job, Outcome, run_job


@dataclass(frozen=True)
class Params:
    """`behaviour`: a file of that name stops it, else the second shard dies, fails, or is refused; "" is none."""

    behaviour: str = ""


def words(index: int, inputs: Sequence[Path], params: Params) -> Outcome:
    """One segment for each line of the input and of `more.txt`, with facts about the place in titles."""
    if index == 1 and params.behaviour and not Path(params.behaviour).exists():
        if params.behaviour.startswith("once"):
            Path(params.behaviour).touch()
        if "killed" in params.behaviour:
            os.kill(os.getpid(), signal.SIGKILL)
        if params.behaviour == "refused":
            raise InputError("holds a bad line", file=inputs[0], line=1)
        raise ZeroDivisionError("division by zero")
    lines = [line for file in [*inputs, Path("more.txt")] for line in file.read_text().splitlines()]
    facts = [str(Path.cwd()), *(os.environ.get(name, "") for name in ("BLEURT_DEVICE", "HF_HOME", "BLEURT_X"))]
    rows = [{"segment_id": f"{index}-{i}", "title": "|".join(facts), "text": line} for i, line in enumerate(lines)]
    return Outcome(table_of(rows, SEGMENTS), len(rows), len(rows), {})


def job(behaviour: str = "", *, on_device: bool = False) -> Job:
    inputs = [[Path(f"{name}.txt")] for name in ("a", "b", "c")]
    return Job("pipeline.extract.__main__", words, inputs, Params(behaviour), "", on_device, [Path("more.txt")])


def facts(out: Path) -> set[tuple[str, ...]]:
    return {tuple(title.split("|")) for title in read_folder(out, SEGMENTS).column("title").to_pylist()}


@pytest.fixture
def on_ray(two_nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Stages run on the cluster, in a folder with three inputs and a file that all shards read."""
    import ray

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the nodes cannot import tests
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setattr(work, "WORK", Path(".work"))
    for name, text in (("a", "one\ntwo\n"), ("b", "three\n"), ("c", "four\n"), ("more", "five\n")):
        Path(f"{name}.txt").write_text(text)
    monkeypatch.setenv("RAY_ADDRESS", two_nodes.address)
    monkeypatch.setenv("BLEURT_ENGINE", "ray")
    monkeypatch.setenv("HF_HOME", "/the/hub")
    monkeypatch.setenv("BLEURT_X", "passed")
    for name in ("BLEURT_DEVICE", "BLEURT_RAY_GPUS", "BLEURT_RAY_FILES"):
        monkeypatch.delenv(name, raising=False)
    return two_nodes


TEXTS = ["one", "two", "five", "three", "five", "four", "five"]


def test_tasks_share_the_stages_folder_and_get_its_variables(on_ray: Any) -> None:
    assert run_job(job(), Path("out"))["rows_out"] == 7
    assert read_folder(Path("out"), SEGMENTS).column("text").to_pylist() == TEXTS
    assert facts(Path("out")) == {(str(Path.cwd()), "cpu", "/the/hub", "passed")}
    assert sorted(file.name for file in Path().rglob(".witness*")) == []


def test_nodes_that_share_no_folder_get_files_through_the_store(on_ray: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLEURT_RAY_FILES", "store")
    monkeypatch.setattr(cluster, "PIECE_BYTES", 3)  # files of several pieces
    run_job(job(), Path("out"))
    assert read_folder(Path("out"), SEGMENTS).column("text").to_pylist() == TEXTS
    places = [Path(fact[0]) for fact in facts(Path("out"))]
    assert {place.relative_to(on_ray.folder).parts[0] for place in places} <= {"one", "two"}
    for place in places:
        assert (place / "more.txt").read_text() == "five\n" and (place / "pipeline/core/work.py").exists()
        assert not (place / "a.txt").exists() and list((place / ".made").iterdir()) == []
    Path("more.txt").write_text("six\n")
    changed = Job(**{**vars(job()), "extra": "six"})
    run_job(changed, Path("out"))
    assert read_folder(Path("out"), SEGMENTS).column("text").to_pylist()[-1] == "six"
    used = {Path(fact[0]) for fact in facts(Path("out"))}
    assert not any(place.exists() for place in places if place.parents[1] in {one.parents[1] for one in used})


@pytest.mark.parametrize("behaviour", ["once killed", "once failed"])
def test_a_shard_that_fails_once_is_made_again(on_ray: Any, behaviour: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_job(job(behaviour), Path("out"))["rows_out"] == 7
    assert read_folder(Path("out"), SEGMENTS).column("text").to_pylist() == TEXTS
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("extract out: shard 1 (b.txt)")]
    reason = "WorkerCrashedError: " if "killed" in behaviour else "ZeroDivisionError: division by zero"
    assert len(told) == 1 and f" failed: {reason}" in told[0] and told[0].endswith("; attempt 2 of 3")


@pytest.mark.parametrize(("behaviour", "reason"), [("killed", "WorkerCrashedError: .*"), ("failed", "ZeroDivision.*")])
def test_a_shard_that_fails_three_times_is_named_in_one_sentence(on_ray: Any, behaviour: str, reason: str) -> None:
    sentence = rf"^extract out: shard 1 \(b\.txt\) failed 3 times on the cluster; the last time: {reason}\.$"
    with pytest.raises(BleurtError, match=sentence):
        run_job(job(behaviour), Path("out"))
    Path(behaviour).touch()
    assert run_job(job(behaviour), Path("out"))["rows_out"] == 7


def test_a_users_mistake_is_not_tried_again(on_ray: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match=r"^b\.txt, line 1: holds a bad line\.$"):
        run_job(job("refused"), Path("out"))
    assert "attempt" not in capsys.readouterr().out


def test_a_node_that_joins_late_brings_the_gpus_that_a_setting_asks_for(
    on_ray: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BLEURT_RAY_GPUS", "1")
    monkeypatch.setattr(cluster, "PATIENCE_SECONDS", 0.2)
    tell, late = cluster._tell_of_want, list[Any]()

    def tell_and_join(*arguments: Any) -> bool:
        told = tell(*arguments)
        late.append(on_ray.add_node(num_cpus=1, num_gpus=1, wait=False))
        return told

    monkeypatch.setattr(cluster, "_tell_of_want", tell_and_join)
    try:
        run_job(job(on_device=True), Path("out"))
    finally:
        on_ray.remove_node(late[0])
    assert len(late) == 1
    assert {fact[1] for fact in facts(Path("out"))} == {"cuda"}
    told = "extract out: no node of the cluster has 1 core and 1 GPUs (BLEURT_RAY_GPUS); waiting for one that joins"
    assert capsys.readouterr().out.splitlines().count(told) == 1


def test_a_node_without_the_folder_or_with_other_versions_is_named(
    on_ray: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Path, "touch", lambda self: None)
        with pytest.raises(StorageError, match=r"does not see the folder .*; let all nodes share it, or set BLEURT_RA"):
            run_job(job(), Path("out"))
    found = importlib.metadata.version
    with monkeypatch.context() as patch:
        patch.setattr(importlib.metadata, "version", lambda name: "0.1" if name == "torch" else found(name))
        with pytest.raises(StorageError, match=r" has torch .*, and the stage was started with 0\.1\.$"):
            run_job(job(), Path("out"))


def test_settings_that_do_not_fit_a_cluster_are_refused(on_ray: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value, sentence in (
        ("BLEURT_RAY_GPUS", "many", "BLEURT_RAY_GPUS must be a share of a GPU or a whole number of them, not 'many'."),
        ("BLEURT_RAY_GPUS", "1.5", "BLEURT_RAY_GPUS must be a share of a GPU or a whole number of them, not '1.5'."),
        ("BLEURT_RAY_FILES", "disk", "BLEURT_RAY_FILES must be shared or store, not 'disk'."),
        ("BLEURT_DEVICE", "cuda:1", "BLEURT_DEVICE must be cpu, cuda or mps on a Ray cluster, not 'cuda:1'."),
        (
            "BLEURT_DEVICE",
            "cuda",
            "BLEURT_DEVICE is cuda, but a task on the Ray cluster has no GPU: set BLEURT_RAY_GPUS.",
        ),
    ):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            with pytest.raises(ParamsError) as caught:
                run_job(job(on_device=True), Path("out"))
        assert str(caught.value) == sentence
