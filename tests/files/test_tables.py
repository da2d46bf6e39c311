"""CSV, TSV, JSONL, Parquet: rows with their lines, and every way to be malformed."""

import gzip
import io
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from pipeline.core.errors import InputError
from pipeline.files.tables import Row, open_table, read_table, reference_texts, table_files

Write = Callable[[Path, str], Path]


def test_csv_counts_lines_through_quoted_line_feeds(tmp_path: Path, write: Write) -> None:
    file = write(tmp_path / "a.csv", '\ufeffx,y\n"one\ntwo",1\n\n"say ""hi""",2\n')
    assert list(read_table(file, ["x"])) == [(2, {"x": "one\ntwo", "y": "1"}), (5, {"x": 'say "hi"', "y": "2"})]


def test_tsv_takes_quotation_marks_as_they_are(tmp_path: Path, write: Write) -> None:
    file = write(tmp_path / "a.tsv", 'x\ty\r\n"Stop," he said.\t1\r\n"\t2\r\n')
    assert list(read_table(file, ["x"])) == [(2, {"x": '"Stop," he said.', "y": "1"}), (3, {"x": '"', "y": "2"})]


def test_jsonl_skips_blank_lines(tmp_path: Path, write: Write) -> None:
    file = write(tmp_path / "a.jsonl", '{"x": "é\\u2028", "y": 1}\n\n{"x": null}\n')
    assert list(read_table(file, ["x"])) == [(1, {"x": "é\u2028", "y": 1}), (3, {"x": None})]


def test_gzip_is_undone(tmp_path: Path) -> None:
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress(b"x\ty\n1\t2\n"))
    assert table_files(tmp_path) == [tmp_path / "a.tsv.gz"]
    assert list(read_table(tmp_path / "a.tsv.gz", ["x"])) == [(2, {"x": "1", "y": "2"})]


def test_parquet_rows_are_numbered(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"x": ["a", None], "y": [1, 2]}), tmp_path / "a.parquet")
    assert list(read_table(tmp_path / "a.parquet", ["x"])) == [(1, {"x": "a", "y": 1}), (2, {"x": None, "y": 2})]


def test_a_10000_word_field_is_read(tmp_path: Path, write: Write) -> None:
    text = " ".join(["antidisestablishmentarianism"] * 10_000)
    assert [row["x"] for _, row in read_table(write(tmp_path / "a.csv", f"x\n{text}\n"), ["x"])] == [text]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"y\n1\n", r"a\.csv, line 1: the column is missing: 'x'\."),
        ("a.csv", b"", r"a\.csv, line 1: the column is missing: 'x'\."),
        ("a.csv", b"x,x\n1,2\n", r"a\.csv, line 1: the column occurs twice: 'x'\."),
        ("a.csv", b"x,y\n1,2\n1\n", r"a\.csv, line 3: has 1 fields, but the header 2\."),
        ("a.csv", b'x\n"abc\n', r"a\.csv, line 2: not well-formed \(.*\)\."),
        ("a.csv", b"x\nok\ncaf\xe9\n", r"a\.csv, line 3: not valid UTF-8: 'caf\\udce9'\."),
        ("a.tsv", b"x\ty\n1\t2\t3\n", r"a\.tsv, line 2: has 3 fields, but the header 2\."),
        ("a.tsv", b'x\n"Stop!"\n"He said ""no""."\n', r"a\.tsv, line 3: looks quoted; save it unquoted or as CSV: "),
        ("a.jsonl", b'{"x": 1}\n{"x": \n', r"""a\.jsonl, line 2: not valid JSON: '\{"x":'\."""),
        ("a.jsonl", b'{"x": 1}\n[1]\n', r"a\.jsonl, line 2: must be an object: \[1\]\."),
        ("a.jsonl", b'{"x": 1}\n{"y": 1}\n', r"a\.jsonl, line 2: the column is missing: 'x'\."),
        ("a.jsonl", b'{"x": "\xff"}\n', r"a\.jsonl, line 1: not valid UTF-8: "),
        ("a.csv.gz", gzip.compress(b"x\nabc\n")[:-9], r"a\.csv\.gz: not a whole gzip file\."),
        ("a.csv.gz", b"x\nabc\n", r"a\.csv\.gz: not a whole gzip file\."),
        ("a.parquet", b"PAR1 no", r"a\.parquet: not a whole Parquet file \(.*\)\."),
    ],
)
def test_malformed_tables_name_file_line_and_value(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        list(read_table(tmp_path / name, ["x"]))


def test_parquet_without_the_column_or_with_damaged_text(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"y": [1]}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"a\.parquet, line 1: the column is missing: 'x'\."):
        list(read_table(tmp_path / "a.parquet", ["x"]))
    damaged = pyarrow.array([b"caf\xe9"]).view(pyarrow.string())
    pyarrow.parquet.write_table(pyarrow.table({"x": damaged}), tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r"b\.parquet, line 1: not valid UTF-8"):
        list(read_table(tmp_path / "b.parquet", ["x"]))


def test_files_of_a_place(tmp_path: Path, write: Write) -> None:
    files = [write(tmp_path / name, "x\n") for name in ("b/a.csv", "c.tsv", "d.txt")]
    assert table_files(tmp_path) == files[:2]
    assert table_files(files[1]) == [files[1]]
    with pytest.raises(InputError, match=r"d\.txt: must be one of \.csv, \.tsv, \.jsonl, \.parquet"):
        table_files(files[2])


def stdin(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_a_file_of_another_name_is_read_by_its_first_bytes(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"x": ["1"], "y": ["2"]}), tmp_path / "a")
    (tmp_path / "b.json").write_bytes(b'\xef\xbb\xbf\n{"x": "1", "y": "2"}\n')
    (tmp_path / "c.txt").write_bytes(b"x\ty\n1\t2\n")
    (tmp_path / "d").write_bytes(gzip.compress(b"x\ty\n1\t2\n"))
    for name, line in (("a", 1), ("b.json", 2), ("c.txt", 2), ("d", 2)):
        assert table_files(tmp_path / name) == [tmp_path / name]
        assert list(read_table(tmp_path / name, ["x"])) == [(line, {"x": "1", "y": "2"})]


def test_standard_input_and_pipes_are_tables_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(b'{"x": 1}\n'))
    writer.start()
    assert list(read_table(pipe, ["x"])) == [(1, {"x": 1})]
    writer.join()
    stdin(monkeypatch, b"candidate\treference\nc\tr\n")
    assert list(read_table("-", ["candidate"])) == [(2, {"candidate": "c", "reference": "r"})]
    stdin(monkeypatch, gzip.compress(b"r\tc\n"))
    with open_table("-") as table:
        assert (table.name, table.kind, table.bare) == ("standard input", ".tsv", True)
        assert 2 * list(table.rows(["candidate"])) == 2 * [(1, {"reference": "r", "candidate": "c"})]
        with pytest.raises(InputError, match=r"^standard input, line 1: the column is missing: 'score'\.$"):
            list(table.rows(["score"]))


def test_one_of_several_columns_may_be_required(tmp_path: Path, write: Write) -> None:
    file = write(tmp_path / "a.jsonl", '{"x": 1}\n{"y": 2}\n{"z": 3}\n')
    rows = read_table(file, [("x", "y")])
    assert [next(rows), next(rows)] == [(1, {"x": 1}), (2, {"y": 2})]
    with pytest.raises(InputError, match=r"a\.jsonl, line 3: the column is missing: 'x'\."):
        next(rows)


def test_half_a_surrogate_pair_is_found_in_every_cell(tmp_path: Path, write: Write) -> None:
    for row in ('{"x": "a\\ud800"}', '{"x\\ud800": 1, "x": 1}', '{"x": {"y": ["\\ud800"]}}'):
        with pytest.raises(InputError, match=r"a\.jsonl, line 1: not valid UTF-8: "):
            list(read_table(write(tmp_path / "a.jsonl", row), ["x"]))
    assert list(read_table(write(tmp_path / "a.jsonl", '{"x": "\\ud83d\\ude00"}'), ["x"])) == [(1, {"x": "😀"})]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"reference": "a"}, ["a"]),
        ({"reference": ["a", ""]}, ["a", ""]),
        ({"reference": '["a"]', "references": '["b", "c"]'}, ['["a"]', "b", "c"]),
        ({"reference": None, "references": "[sic] b"}, ["[sic] b"]),
        ({"references": []}, []),
    ],
)
def test_references_are_a_text_or_a_list_of_texts(row: Row, expected: list[str]) -> None:
    assert reference_texts(row, "a.csv", 1) == expected


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"reference": 3}, "reference is not text: 3"),
        ({"reference": ["a", 3]}, "reference is not text: 3"),
        ({"references": "[3]"}, "references is not text: 3"),
        ({"references": {"a": 1}}, r"references is not a list of texts: \{'a': 1\}"),
    ],
)
def test_references_that_are_no_text_are_named(row: Row, message: str) -> None:
    with pytest.raises(InputError, match=rf"^a\.csv, line 4: {message}\.$"):
        reference_texts(row, "a.csv", 4)
