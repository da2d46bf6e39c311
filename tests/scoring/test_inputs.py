"""Segments from files of every kind, and from standard input; malformed ones are one sentence."""

import gzip
import io
import json
import os
import sys
import threading
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from pipeline.core.errors import BleurtError
from pipeline.scoring import inputs
from pipeline.scoring.inputs import Segment


def written(folder: Path, **contents: str | bytes) -> dict[str, str]:
    """Files in `folder`, named for the keys with "_" for "."; their paths by key."""
    paths = {}
    for name, content in contents.items():
        file = folder / name.replace("_", ".", 1)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        paths[name] = str(file)
    return paths


def from_stdin(monkeypatch: pytest.MonkeyPatch, content: str | bytes) -> None:
    """Make `content` what standard input holds."""
    raw = content.encode() if isinstance(content, str) else content
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8"))


def test_parallel_files_are_segments(tmp_path: Path) -> None:
    files = written(
        tmp_path,
        r1_txt="\ufeffone\r\ntwo\u2028half\r\n",
        r2_txt="eins\nzwei",
        a_txt=b"uno\n\n",
        b_txt_gz=gzip.compress(b"un\ndeux\n"),
        s_txt="x\ny\n",
    )
    b = str(Path(files["b_txt_gz"]).rename(tmp_path / "b.txt.gz"))
    with inputs.text_files([files["r1_txt"], files["r2_txt"]], [files["a_txt"], b], files["s_txt"]) as segments:
        assert (segments.systems, segments.count) == ((files["a_txt"], b), 2)
        expected = [
            Segment(("one", "eins"), ("uno", "un"), "x"),
            Segment(("two\u2028half", "zwei"), ("", "deux"), "y"),
        ]
        assert list(segments) == expected == list(segments)


def test_a_pipe_and_standard_input_can_be_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(b"one\ntwo\n"))
    writer.start()
    from_stdin(monkeypatch, "uno\ndos\n")
    with inputs.text_files([str(pipe)], ["-"]) as segments:
        writer.join()
        assert (
            list(segments) == list(segments) == [Segment(("one",), ("uno",), None), Segment(("two",), ("dos",), None)]
        )


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ({"r_txt": "a\nb\n", "c_txt": "a\n"}, "{r_txt}: has 2 lines, but {c_txt} has 1."),
        ({"r_txt": "", "c_txt": ""}, "{r_txt}: holds no segment."),
        ({"r_txt": "a\n", "c_txt": b"caf\xe9\n"}, "{c_txt}, line 1: not valid UTF-8: 'caf\\udce9\\n'."),
        ({"r_txt": "a\n", "c_txt": "b\n".encode("utf-16")}, "{c_txt}, line 1: not valid UTF-8: "),
        ({"r_txt": "a\n", "c_jsonl": "{}\n"}, "{c_jsonl}: is a table: give it with --input."),
        ({"r_txt": "a\n", "c_gz": b"no gzip"}, "{c_gz}: not a whole gzip file."),
    ],
)
def test_texts_that_do_not_fit_are_named(tmp_path: Path, contents: dict[str, str | bytes], message: str) -> None:
    files = written(tmp_path, **contents)
    reference, candidate = files.values()
    with pytest.raises(BleurtError) as refused, inputs.text_files([reference], [candidate]):
        pytest.fail("was read")
    assert str(refused.value).startswith(message.format(**files))


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "no.txt")
    for opened in (inputs.text_files([missing], [missing + "2"]), inputs.table(missing), inputs.table(str(tmp_path))):
        with pytest.raises(BleurtError, match=rf"^{tmp_path}.*: cannot be read \("), opened:
            pytest.fail("was read")


def test_a_file_given_twice_is_refused(tmp_path: Path) -> None:
    (one,) = written(tmp_path, a_txt="a\n").values()
    for references, candidates in (([one], [one, one]), (["-"], ["-"])):
        with pytest.raises(BleurtError, match="is given twice"), inputs.text_files(references, candidates):
            pytest.fail("was read")


ROWS = [
    {"reference": "a\nb", "candidate": 'c, "d"', "id": "7", "source": "s"},
    {"reference": "e", "candidate": "", "id": "8", "source": ""},
]
CSV = 'id,source,reference,candidate\n7,s,"a\nb","c, ""d"""\n8,,e,\n'


@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz", "csv", "parquet", "json", "dat"])
def test_tables_of_every_kind_hold_the_same(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"pairs.{kind}"
    text = "".join(json.dumps(row) + "\n" for row in ROWS)
    if kind in ("parquet", "dat"):
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), file)
    else:
        file.write_bytes(
            gzip.compress(text.encode()) if kind.endswith("gz") else (CSV if kind == "csv" else text).encode()
        )
    with inputs.table(str(file)) as segments:
        assert (segments.systems, segments.count) == ((str(file),), 2)
        found = list(segments)
        assert found == list(segments)
    assert [(s.references, s.candidates, s.source) for s in found] == [
        (("a\nb",), ('c, "d"',), "s"),
        (("e",), ("",), ""),
    ]
    assert [segment.fields for segment in found] == ROWS


def test_several_references_come_as_a_list(tmp_path: Path) -> None:
    rows = [
        {"reference": ["a", "b"], "candidate": "c"},
        {"references": ["a", "b"], "candidate": "c"},
        {"reference": "a", "references": ["b"], "candidate": "c"},
    ]
    (file,) = written(tmp_path, pairs_jsonl="\n".join(map(json.dumps, rows))).values()
    with inputs.table(file) as segments:
        assert [segment.references for segment in segments] == [("a", "b")] * 3
    (file,) = written(tmp_path, pairs_csv='references,candidate\n"[""a"", ""b""]",c\n[sic] a,c\n').values()
    with inputs.table(file) as segments:
        assert [segment.references for segment in segments] == [("a", "b"), ("[sic] a",)]


def test_a_reference_that_looks_like_a_list_is_text(tmp_path: Path) -> None:
    (file,) = written(tmp_path, pairs_csv='reference,candidate\n[1],[1]\n"[""a"", ""b""]",c\n').values()
    with inputs.table(file) as segments:
        assert [segment.references for segment in segments] == [("[1]",), ('["a", "b"]',)]
    (file,) = written(tmp_path, pairs_jsonl='{"reference": "[]", "candidate": "a"}').values()
    with inputs.table(file) as segments:
        assert [segment.references for segment in segments] == [("[]",)]


def test_two_columns_may_begin_with_a_brace_or_hold_the_word_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    for content in ("{laughs} hello\tHello\n", "candidate\tthe candidate\n"):
        from_stdin(monkeypatch, content)
        with inputs.table() as segments:
            reference, candidate = content.rstrip("\n").split("\t")
            assert [(one.references, one.candidates) for one in segments] == [((reference,), (candidate,))]


def test_standard_input_is_two_columns_or_a_table_with_names(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [(("one",), ("uno",)), (("two",), ("",))]
    given = [
        "one\tuno\r\ntwo\t\n",
        "candidate\tn\treference\nuno\t1\tone\n\t2\ttwo\n",
        '\ufeff\n{"reference": "one", "candidate": "uno"}\n{"reference": "two", "candidate": ""}\n',
    ]
    for content in given:
        from_stdin(monkeypatch, content)
        with inputs.table() as segments:
            assert segments.systems == ("standard input",)
            assert [(segment.references, segment.candidates) for segment in segments] == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\tb\nc\n", "standard input, line 2: has 1 fields, but must have two, reference and candidate."),
        ("", "standard input: holds no segment."),
        ('{"candidate": "a"}\n', "standard input, line 1: the column is missing: 'reference'."),
        (
            '{"candidate": "a", "reference": "b"}\n{"reference"\n',
            "standard input, line 2: not valid JSON: '{\"reference\"'.",
        ),
        ('{"candidate": null, "reference": "b"}\n', "standard input, line 1: candidate is not text."),
        ('{"candidate": "a", "reference": ["b", 3]}\n', "standard input, line 1: reference is not text: 3."),
        ('{"candidate": "a", "reference": []}\n', "standard input, line 1: has no reference."),
        ('{"candidate": "a\\ud800", "reference": "b"}\n', "standard input, line 1: not valid UTF-8: 'a\\ud800'."),
        (
            '{"candidate": "a", "reference": "b", "notes": ["c\\ud800"]}\n',
            "standard input, line 1: not valid UTF-8: '[\"c\\ud800\"]'.",
        ),
        ("candidate\treference\na\tb\tc\n", "standard input, line 2: has 3 fields, but the header 2."),
    ],
)
def test_malformed_tables_are_named(monkeypatch: pytest.MonkeyPatch, content: str, message: str) -> None:
    from_stdin(monkeypatch, content)
    with pytest.raises(BleurtError) as refused, inputs.table():
        pytest.fail("was read")
    assert str(refused.value) == message


def test_a_table_file_without_the_column_is_named(tmp_path: Path) -> None:
    (file,) = written(tmp_path, pairs_tsv="reference\thypothesis\na\tb\n").values()
    with pytest.raises(BleurtError) as refused, inputs.table(file):
        pytest.fail("was read")
    assert str(refused.value) == f"{file}, line 1: the column is missing: 'candidate'."
