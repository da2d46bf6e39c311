"""The stage `collect` as it is run: from params.yaml to shards, again after a kill, and with a user's mistake."""

import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.core.modules import ROOT

PARAMS = """
profile: demo
profiles:
  demo:
    collect:
      corpora:
        - name: sample
          layout: own
          parts: [{path: ratings.tsv, sha256: null}]
          language_pairs: ["*"]
          years: []
          split: by_reference
          test_fraction: 0.25
          scale: 100
collect:
  without: []
  language_pairs: null
  validation_fraction: 0.1
  max_words: 512
  undo_character_references: true
  rows_per_shard: 25
  drift: {train_alpha: 0, test_alpha: 0}
  seed: 1
"""
HEADER = "reference\tcandidate\tscore\tsystem\tsegment\tcategory\tdomain\n"

KILL_AT_THE_SECOND_SHARD = """
import os, signal, sys
from pipeline.collect import gather
from pipeline.collect import __main__ as collect
write, done = gather.write_shard, []
def write_or_die(file, table):
    if done:
        os.kill(os.getpid(), signal.SIGKILL)
    done.append(file)
    write(file, table)
gather.write_shard = write_or_die
collect.main()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "params.yaml").write_text(PARAMS, encoding="utf-8")
    rows = [f"Sentence {n // 6}.\tCandidate {n}.\t{n % 101}\tS{n % 6}\t{n // 6}\tperfect\tnews\n" for n in range(120)]
    (tmp_path / "ratings.tsv").write_text(HEADER + "".join(rows), encoding="utf-8")
    return tmp_path


def run(folder: Path, out: str, *how: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *(how or ("-m", "pipeline.collect")), "--out", out]
    environment = {"PYTHONPATH": str(ROOT), "PATH": ""}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def content(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_a_killed_run_leaves_nothing_and_the_next_gives_the_same_bytes(folder: Path) -> None:
    whole = run(folder, "data/whole")
    assert (whole.returncode, whole.stdout) == (
        0,
        "collect: sample: 120 of 120 rows (84 train, 6 validation, 30 test)\n",
    )
    assert run(folder, "data/killed", "-c", KILL_AT_THE_SECOND_SHARD).returncode == -9
    assert not (folder / "data" / "killed").exists()
    assert run(folder, "data/killed").returncode == 0
    assert content(folder / "data" / "killed") == content(folder / "data" / "whole")
    assert sorted(content(folder / "data" / "whole")) == [
        "counts.json",
        *(f"part-0000{number}.parquet" for number in range(5)),
    ]


def test_a_mistake_is_one_sentence_and_exit_code_2(folder: Path) -> None:
    with (folder / "ratings.tsv").open("a", encoding="utf-8") as file:
        file.write("Sentence.\tCandidate.\tgood\tS1\t99\tperfect\tnews\n")
    result = run(folder, "data/out")
    assert (result.returncode, result.stderr) == (2, "error: ratings.tsv, line 122: score is not a number: 'good'.\n")
    assert not (folder / "data" / "out").exists()
