"""Lines of text, numbers in them, columns between blanks; what is not so is named."""

import gzip
import io
import os
import sys
import threading
from pathlib import Path

import pytest

from pipeline.core.errors import InputError
from pipeline.files.lines import (
    check_same_length,
    number,
    read_columns,
    read_lines,
    rereadable,
    stream_lines,
    whole_number,
)


def given(folder: Path, content: bytes, name: str = "a.txt") -> Path:
    (folder / name).write_bytes(content)
    return folder / name


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    file = given(tmp_path, "\ufeff one \r\ntwo\u2028half\x0b\r!\n\nlast".encode())
    assert list(stream_lines(file)) == [" one ", "two\u2028half\x0b\r!", "", "last"]
    assert read_lines(file) == ["one", "two\u2028half\x0b\r!", "", "last"]


def test_characters_to_strip_may_be_named(tmp_path: Path) -> None:
    file = given(tmp_path, b" a\t\r\n\tb\n")
    assert (read_lines(file, strip="\r"), read_lines(file, strip=" \t")) == ([" a\t", "\tb"], ["a", "b"])


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt"])
def test_gzip_is_undone_whatever_the_name(tmp_path: Path, name: str) -> None:
    assert read_lines(given(tmp_path, gzip.compress(b"one\ntwo\n"), name)) == ["one", "two"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"ok\ncaf\xe9\n", r"a\.txt, line 2: not valid UTF-8: 'caf\\udce9\\n'\."),
        ("a.gz", b"no gzip", r"a\.gz: not a whole gzip file\."),
        ("a.gz", gzip.compress(b"one\n" * 9)[:-9], r"a\.gz: not a whole gzip file\."),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_lines(given(tmp_path, content, name))
    with pytest.raises(InputError, match=r"none\.txt: cannot be read \(No such file or directory\)\."):
        read_lines(tmp_path / "none.txt")


def test_an_input_can_have_a_name_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^standard input, line 1: not valid UTF-8"):
        list(stream_lines(given(tmp_path, b"\xff"), "standard input"))


def test_what_can_be_read_only_once_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, pipe, copy = given(tmp_path, b"a"), tmp_path / "pipe", tmp_path / "copy"
    assert rereadable(file, copy) == file
    assert rereadable(tmp_path / "none", copy) == tmp_path / "none"
    assert not copy.exists()
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(b"piped"))
    writer.start()
    assert rereadable(pipe, copy).read_bytes() == b"piped"
    writer.join()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"typed")))
    assert rereadable("-", copy).read_bytes() == b"typed"


def test_numbers_are_finite() -> None:
    assert [number(value, "score", "a", 1) for value in (1, "-2.5", 1e3)] == [1.0, -2.5, 1000.0]
    for value, problem in (("x", "not a number"), (True, "not a number"), ("1_0", "not a number"), ("inf", "finite")):
        with pytest.raises(InputError, match=rf"^a, line 7: score is .*{problem}: {value!r}\.$"):
            number(value, "score", "a", 7)


def test_whole_numbers_are_digits() -> None:
    assert whole_number("007", "SID", "a", 1) == 7
    for value in ("-1", "1.0", "\u0661", ""):
        with pytest.raises(InputError, match=r"^a, line 1: SID is not a whole number"):
            whole_number(value, "SID", "a", 1)


def test_parallel_files_have_equally_many_lines() -> None:
    check_same_length(Path("a"), ["1"], Path("b"), ["2"])
    with pytest.raises(InputError, match=r"^a: has 1 lines, but b has 2\.$"):
        check_same_length(Path("a"), ["1"], Path("b"), ["2", "3"])


def test_columns_are_chosen_by_name(tmp_path: Path) -> None:
    file = given(tmp_path, b"SYS SID  N\nx 1 2\n\ny 2 3\n")
    assert read_columns(file, ("N", "SYS")) == [(2, ["2", "x"]), (4, ["3", "y"])]
    with pytest.raises(InputError, match=r"a\.txt, line 1: the column is missing: 'RAW'\."):
        read_columns(file, ("SYS", "RAW"))
    with pytest.raises(InputError, match=r"a\.txt, line 2: has 2 fields, but the header 3\."):
        read_columns(given(tmp_path, b"SYS SID N\nx 1\n"), ("SYS",))
