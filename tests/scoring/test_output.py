"""Where results go: checked first, written whole, and nothing but a regular file is ever replaced."""

import os
import threading
from pathlib import Path

import pytest

from pipeline.core.errors import ParamsError
from pipeline.scoring.output import check_destinations, written


def test_a_file_is_replaced_when_all_is_written_and_keeps_its_permissions(tmp_path: Path) -> None:
    file = tmp_path / "s.txt"
    file.write_text("old")
    file.chmod(0o640)
    with pytest.raises(ValueError, match="half way"), written(file) as out:
        out.write("new")
        raise ValueError("half way")
    assert file.read_text() == "old"
    with written(file) as out:
        out.write("new")
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("new", 0o640)
    assert [one.name for one in tmp_path.iterdir()] == ["s.txt"]


def test_a_link_stays_and_what_it_points_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "target.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("target.txt")
    with written(tmp_path / "link.txt") as out:
        out.write("new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "target.txt").read_text() == "new"


def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", list[str]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    with written(pipe) as out:
        out.write("scores")
    reader.join()
    assert read == ["scores"] and pipe.is_fifo()


def test_a_link_to_a_pipe_is_written_to() -> None:
    read, write = os.pipe()
    with written(Path(f"/dev/fd/{write}")) as out:  # as /dev/stdout and >(command) are
        out.write("new")
    assert os.read(read, 9) == b"new"
    os.close(read)
    os.close(write)


def test_an_input_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / "link.txt").symlink_to("a.txt")
    with pytest.raises(ParamsError, match=r"^--scores_file: .*a\.txt is read as input and would be replaced"):
        check_destinations([str(tmp_path / "link.txt")], scores_file=tmp_path / "a.txt")
    check_destinations(["-", str(tmp_path / "a.txt")], scores_file=tmp_path / "b.txt")


def test_what_cannot_be_written_is_refused_before_anything_is_scored(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    check_destinations(scores_file=tmp_path / "new" / "s.txt", to_json=None)
    assert not (tmp_path / "new").exists()
    for wrong in (tmp_path, Path()):
        with pytest.raises(ParamsError, match="--scores_file: must name a file"):
            check_destinations(scores_file=wrong)
    with pytest.raises(ParamsError, match=r"--html: .* would lie in .*file, which is a file"):
        check_destinations(html=tmp_path / "file" / "x.html")
    with pytest.raises(ParamsError, match="--to_json and --scores_file name the same file"):
        check_destinations(scores_file=tmp_path / "s", to_json=tmp_path / "." / "s")
