"""making: the earlier output stands until the new one is whole, whatever goes wrong; and one run at a time."""

import errno
import os
from pathlib import Path

import pytest

from pipeline.core.errors import BleurtError, InputError, StorageError
from pipeline.core.outputs import alone, final, making


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "stage"
    folder.mkdir(parents=True)
    (folder / "old").write_text("1")
    return folder


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_a_new_output_takes_the_place_of_the_earlier_one(out: Path) -> None:
    with making(out) as new:
        (new / "live").mkdir()
        assert (names(out), final(new)) == (["old"], out)
    assert (names(out), names(out.parent)) == (["live"], ["stage"])


def test_what_others_made_stays_where_only_some_files_are_ours(out: Path) -> None:
    (out / "plots").mkdir()
    (out / "plots" / "gone.csv").touch()
    with making(out, among=True) as new:
        (new / "page.html").touch()
        (new / "plots").mkdir()
    assert names(out) == ["old", "page.html", "plots"] and names(out / "plots") == []


@pytest.mark.parametrize("error", [InputError("bad", file="a.txt"), KeyboardInterrupt(), ValueError("a defect")])
def test_an_error_keeps_the_earlier_output_and_leaves_nothing_else(out: Path, error: BaseException) -> None:
    with pytest.raises(type(error)), making(out) as new:
        (new / "half").touch()
        raise error
    assert (names(out), names(out.parent)) == (["old"], ["stage"])


NO_SPACE, READ_ONLY = os.strerror(errno.ENOSPC), os.strerror(errno.EROFS)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOSPC, NO_SPACE, "NEW/a"), "OUT/a: could not be written, the disk is full."),
        (OSError(errno.ENOSPC, NO_SPACE), "OUT: could not be written, the disk is full."),
        (OSError(errno.EROFS, READ_ONLY), "OUT: could not be written, Read-only file system."),
        (Exception("No space left on device (os error 28)"), "OUT: could not be written, the disk is full."),
        (StorageError("NEW/b: could not be written, ..."), "OUT/b: could not be written, ..."),
    ],
)
def test_a_disk_that_takes_no_more_is_one_sentence(out: Path, error: Exception, told: str) -> None:
    new = out.parent / ".new" / out.name
    error.args = tuple(one.replace("NEW", str(new)) if isinstance(one, str) else one for one in error.args)
    if isinstance(error, OSError) and error.filename:
        error.filename = error.filename.replace("NEW", str(new))
    with pytest.raises(StorageError) as found, making(out):
        raise error
    assert str(found.value) == told.replace("OUT", str(out))


def test_a_disk_that_was_full_before_is_not_blamed_for_a_defect(out: Path) -> None:
    with pytest.raises(OSError, match="no such device"), making(out):
        raise OSError(errno.ENODEV, "no such device")


def test_two_runs_are_not_inside_at_once(tmp_path: Path) -> None:
    place = tmp_path / "shards"
    told = rf"shards: another run \(process {os.getpid()}\) is at work on it; let that end first\.$"
    with alone(place), alone(tmp_path / "others"), pytest.raises(BleurtError, match=told), alone(place):
        pass
    with alone(place):
        pass


def test_of_torchruns_processes_the_first_alone_writes(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    with making(out) as new:
        assert not new.exists()
    assert names(out) == ["old"]
