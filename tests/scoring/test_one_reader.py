"""`bleurt benchmark` reads every file that `bleurt score` reads, if it has a column of ratings."""

import gzip
import io
import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from pipeline.scoring.__main__ import main

TEXTS = ["the cat sat", "a dog ran", "the red house", "paris", "the small bird", "the cat"]
ROWS = [
    {"reference": text, "candidate": " ".join([*text.split()[:-1], "mat"]), "score": 10 * number}
    for number, text in enumerate(TEXTS)
]
LISTS: list[dict[str, Any]] = [
    {"references": [row["reference"], "a bird"], "candidate": row["candidate"], "score": row["score"]} for row in ROWS
]


def separated(rows: list[dict[str, Any]], separator: str) -> bytes:
    """CSV or TSV; a list is written as JSON, quoted in CSV."""
    lines = [separator.join(rows[0])]
    for row in rows:
        cells = [json.dumps(cell) if isinstance(cell, list) else str(cell) for cell in row.values()]
        if separator == ",":
            cells = ['"' + cell.replace('"', '""') + '"' for cell in cells]
        lines.append(separator.join(cells))
    return ("\n".join(lines) + "\n").encode()


def json_lines(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def parquet(rows: list[dict[str, Any]]) -> bytes:
    out = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), out)
    return out.getvalue()


IN_ONE_COLUMN: list[dict[str, Any]] = [
    {"reference": row["references"], "candidate": row["candidate"], "score": row["score"]} for row in LISTS
]

FILES = {
    "a.csv": separated(ROWS, ","),
    "a.tsv": separated(ROWS, "\t"),
    "a.jsonl": json_lines(ROWS),
    "a.parquet": parquet(ROWS),
    "lists.csv": separated(LISTS, ","),
    "lists.tsv": separated(LISTS, "\t"),
    "lists.jsonl": json_lines(LISTS),
    "lists.parquet": parquet(LISTS),
    "one_column.jsonl": json_lines(IN_ONE_COLUMN),
    "one_column.parquet": parquet(IN_ONE_COLUMN),
    "plain.csv": separated([{"references": row["reference"], **row} for row in ROWS], ","),
    "only_plain.csv": separated(
        [{"references": row["reference"], "candidate": row["candidate"], "score": row["score"]} for row in ROWS], ","
    ),
    "null.jsonl": json_lines([{"reference": None, **row} for row in LISTS]),
    "bom.csv": b"\xef\xbb\xbf" + separated(ROWS, ","),
    "bom.tsv": b"\xef\xbb\xbf" + separated(ROWS, "\t"),
    "bom.jsonl": b"\xef\xbb\xbf" + json_lines(ROWS),
    "packed.csv.gz": gzip.compress(separated(LISTS, ",")),
    "packed.tsv.gz": gzip.compress(separated(LISTS, "\t")),
    "packed.jsonl.gz": gzip.compress(b"\xef\xbb\xbf" + json_lines(LISTS)),
    "pairs.json": json_lines(ROWS),
    "pairs.txt": separated(ROWS, "\t"),
    "pairs": json_lines(ROWS),
    "pairs.dat": parquet(ROWS),
    "pairs.gz": gzip.compress(separated(ROWS, "\t")),
}
Both = Callable[..., tuple[int, int]]


@pytest.fixture
def both(checkpoint: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Both:
    """How many rows `bleurt score` and `bleurt benchmark` read; `before` makes the file ready for each."""
    monkeypatch.setenv("BLEURT_DEVICE", "cpu")

    def run(file: str, before: Callable[[], None] = lambda: None) -> tuple[int, int]:
        before()
        assert main(["score", "--input", file, "-c", str(checkpoint), "--quiet"]) == 0, capsys.readouterr().err
        scored = len(capsys.readouterr().out.splitlines())
        before()
        few = ["--baselines", "sentbleu", "--resamples", "2", "--permutations", "2", "--format", "json"]
        arguments = ["benchmark", "--ratings", file, "-c", str(checkpoint), "--scale", "100", *few]
        assert main(arguments) == 0, capsys.readouterr().err
        counts = {
            row["count"] for row in json.loads(capsys.readouterr().out)["agreement"] if row["statistic"] != "darr"
        }
        assert len(counts) == 1
        return scored, counts.pop()

    return run


@pytest.mark.parametrize("name", FILES)
def test_score_and_benchmark_read_the_same_files(both: Both, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(FILES[name])
    assert both(str(tmp_path / name)) == (6, 6)


def test_score_and_benchmark_read_standard_input(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill() -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(FILES["lists.jsonl"])))

    assert both("-", fill) == (6, 6)


def test_score_and_benchmark_read_a_pipe(both: Both, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def fill() -> None:
        threading.Thread(target=lambda: pipe.write_bytes(FILES["a.tsv"])).start()

    assert both(str(pipe), fill) == (6, 6)


def test_without_ratings_only_the_benchmark_says_so(
    tmp_path: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.tsv"
    file.write_bytes(b"reference\tcandidate\na\tb\n")
    assert main(["score", "--input", str(file), "-c", str(checkpoint), "--quiet"]) == 0
    assert main(["benchmark", "--ratings", str(file), "-c", str(checkpoint)]) == 2
    assert capsys.readouterr().err == f"error: {file}, line 1: the column is missing: 'score'.\n"
