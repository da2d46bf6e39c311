"""run_job: rows accounted for, finished shards kept, other shards made again when their input changes."""

import errno
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipeline.core import work
from pipeline.core.errors import InputError, ParamsError, StorageError
from pipeline.core.records import SEGMENTS
from pipeline.core.shards import read_folder, table_of
from pipeline.core.work import Job, Outcome, fingerprint, run_job


@dataclass(frozen=True)
class Params:
    shout: bool


def lines_to_segments(index: int, inputs: Sequence[Path], params: Params) -> Outcome:
    """One segment a line; empty lines are dropped; a line "bad" is a user's mistake."""
    (file,) = inputs
    with file.with_suffix(".runs").open("a") as stream:
        stream.write("x")
    lines = file.read_text().splitlines()
    if "bad" in lines:
        raise InputError("holds a bad line", file=file.name, line=lines.index("bad") + 1)
    kept = [line.upper() if params.shout else line for line in lines if line]
    rows = [{"segment_id": f"{index}-{i}", "title": "t", "text": text} for i, text in enumerate(kept)]
    return Outcome(table_of(rows, SEGMENTS), len(lines), len(rows), {"empty": len(lines) - len(rows)})


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BLEURT_WORKERS", "1")
    for name, text in (("a", "one\n\ntwo\n"), ("b", "three\n")):
        (tmp_path / f"{name}.txt").write_text(text)
    return Job("pipeline.extract.__main__", lines_to_segments, [[Path("a.txt")], [Path("b.txt")]], Params(shout=True))


def runs(name: str) -> int:
    return len(Path(f"{name}.runs").read_text()) if Path(f"{name}.runs").exists() else 0


def test_counts_add_up_and_stand_beside_the_shards(job: Job) -> None:
    counts = run_job(job, Path("out"))
    assert counts == {"rows_in": 4, "rows_out": 3, "dropped": {"empty": 1}}
    assert read_folder(Path("out"), SEGMENTS).column("text").to_pylist() == ["ONE", "TWO", "THREE"]
    assert sorted(file.name for file in Path("out").iterdir()) == [
        "counts.json",
        "part-00000.parquet",
        "part-00001.parquet",
    ]


def test_a_run_that_failed_keeps_its_finished_shards(job: Job) -> None:
    Path("b.txt").write_text("three\nbad\n")
    with pytest.raises(InputError, match=r"b\.txt, line 2: holds a bad line\."):
        run_job(job, Path("out"))
    assert not Path("out").exists()
    Path("b.txt").write_text("three\n")
    run_job(job, Path("out"))
    assert (runs("a"), runs("b")) == (1, 2)


def test_fingerprints_follow_input_params_and_place(job: Job) -> None:
    quiet = Job(job.module, job.function, job.inputs, Params(shout=False))
    names = {fingerprint(job, 0), fingerprint(job, 1), fingerprint(quiet, 0)}
    assert len(names) == 3
    before = fingerprint(job, 0)
    Path("a.txt").write_text("other\n")
    assert fingerprint(job, 0) != before


def test_rows_that_vanish_without_a_reason_are_our_own_defect() -> None:
    with pytest.raises(AssertionError):
        Outcome(table_of([], SEGMENTS), rows_in=2, rows_out=1, dropped={})


def test_a_clean_up_that_was_killed_half_way_costs_no_later_run(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(work, "remove_folder", lambda folder: None)
        run_job(job, Path("out"))
    (lost,) = Path(".work/extract/out").glob(f"{fingerprint(job, 1)}.parquet")
    lost.unlink()
    assert run_job(job, Path("out")) == {"rows_in": 4, "rows_out": 3, "dropped": {"empty": 1}}
    assert (runs("a"), runs("b")) == (1, 2)
    assert list(Path(".work/extract").iterdir()) == []


def test_a_shard_is_published_as_a_link_or_else_as_a_copy(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "remove_folder", lambda folder: None)
    run_job(job, Path("out"))
    assert Path("out/part-00000.parquet").stat().st_nlink == 2
    whole = Path("out/part-00000.parquet").read_bytes()

    def refuse(source: Path, target: Path) -> None:
        raise OSError(errno.EXDEV, "other device")

    monkeypatch.setattr(os, "link", refuse)
    run_job(job, Path("out"))
    assert Path("out/part-00000.parquet").stat().st_nlink == 1
    assert Path("out/part-00000.parquet").read_bytes() == whole


def test_a_full_disk_while_publishing_is_one_sentence(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: Path, target: Path) -> None:
        target.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "link", full)
    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(StorageError, match=r"^out/part-00000\.parquet: could not be written, the disk is full\.$"):
        run_job(job, Path("out"))
    assert not Path("out").exists()


def test_an_engine_that_is_unknown_or_not_installed_is_one_sentence(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLEURT_ENGINE", "spark")
    with pytest.raises(ParamsError, match=r"^BLEURT_ENGINE must be local or ray, not 'spark'\.$"):
        run_job(job, Path("out"))
    monkeypatch.setenv("BLEURT_ENGINE", "ray")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ParamsError, match="the package ray is not installed"):
        run_job(job, Path("out"))
