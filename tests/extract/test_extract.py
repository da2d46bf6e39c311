"""The stage `extract` as users run it: output, accounts, worker counts, a kill, bad input, real dumps."""

import bz2
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.core.records import SEGMENTS
from pipeline.core.shards import list_shards, read_folder

ROOT = Path(__file__).resolve().parents[2]
WORDS = (
    "river",
    "city",
    "music",
    "garden",
    "winter",
    "painter",
    "bridge",
    "story",
    "market",
    "window",
    "planet",
    "forest",
)


def dump(file: Path, pages: list[str]) -> Path:
    body = "".join(
        f"<page><title>Page {n}</title><ns>0</ns><id>{n}</id><revision><text>{text}</text></revision></page>\n"
        for n, text in enumerate(pages, start=1)
    )
    raw = f"<mediawiki>\n{body}</mediawiki>".encode()
    file.write_bytes(bz2.compress(raw) if file.suffix == ".bz2" else raw)
    return file


def prose(sentences: int, seed: int) -> str:
    draw = random.Random(seed)
    return " ".join(f"The {' '.join(draw.choices(WORDS, k=7))} stayed." for _ in range(sentences))


def environment(workers: int) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "BLEURT_WORKERS": str(workers)}


def command(folder: Path, source: Path | str, **changes: Any) -> list[str]:
    extract = {
        "source": str(source),
        "sha256": None,
        "segments": None,
        "whole_below": 100,
        "sentences_per_segment": 4.0,
        "min_words": 5,
        "max_words": 40,
        "segments_per_shard": 100,
        "pages_per_chunk": 1,
        "seed": 1,
        **changes,
    }
    params = folder / "params.yaml"
    params.write_text(yaml.safe_dump({"profile": "test", "profiles": {"test": {}}, "extract": extract}))
    return [sys.executable, "-m", "pipeline.extract", "--params", str(params), "--out", "data/extract"]


def run(folder: Path, source: Path | str, workers: int = 1, **changes: Any) -> subprocess.CompletedProcess[str]:
    folder.mkdir(exist_ok=True)
    arguments = command(folder, source, **changes)
    return subprocess.run(arguments, cwd=folder, env=environment(workers), capture_output=True, text=True, check=False)


def output(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted((folder / "data" / "extract").iterdir())}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `d.xml.bz2` and the output of a run with one worker that was never killed."""
    folder = tmp_path_factory.mktemp("whole")
    pages = [prose(800, n) for n in (1, 2, 1, 3, 4)]
    pages[0] += " Short one."
    done = run(folder, dump(folder / "d.xml.bz2", [*pages, "#REDIRECT [[x]]"]), segments=2500, segments_per_shard=1000)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_row_is_counted(whole: Path) -> None:
    files = output(whole)
    assert list(files) == ["counts.json", *(f"part-0000{n}.parquet" for n in range(3))]
    assert json.loads(files["counts.json"]) == {
        "rows_in": 4001,
        "rows_out": 2500,
        "dropped": {"duplicate": 800, "not_sampled": 700, "too_short": 1},
        "pages": {"rows_in": 6, "rows_out": 5, "dropped": {"redirect": 1}},
    }
    table = read_folder(whole / "data" / "extract", SEGMENTS)
    texts = table.column("text").to_pylist()
    assert (len(texts), len(set(texts))) == (2500, 2500)
    numbers = [tuple(map(int, segment.split("-"))) for segment in table.column("segment_id").to_pylist()]
    assert numbers == sorted(numbers)
    assert {page for page, _ in numbers} == {1, 2, 4, 5}
    assert not (whole / ".work" / "extract").exists()


def test_killed_run_continues_with_other_workers_and_gives_the_same_bytes(whole: Path, tmp_path: Path) -> None:
    sizes = {"segments": 2500, "segments_per_shard": 1000}
    with subprocess.Popen(
        command(tmp_path, whole / "d.xml.bz2", **sizes),
        cwd=tmp_path,
        env=environment(1),
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        while process.poll() is None and not list(tmp_path.glob(".work/extract/sentences-0/*.json")):
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
    finished = list(tmp_path.glob(".work/extract/sentences-0/*.json"))
    assert 1 <= len(finished) < 5
    assert not (tmp_path / "data" / "extract").exists()
    again = run(tmp_path, whole / "d.xml.bz2", 2, **sizes)
    assert f"{len(finished)} of 5 shards were finished by an earlier run" in again.stdout
    assert output(tmp_path) == output(whole)


BAD = {
    "not_a_dump": (b"<html></html>", "d.xml, line 1: not a MediaWiki dump"),
    "entities": (b'<!DOCTYPE m [<!ENTITY a "ha">]><mediawiki/>', "d.xml, line 1: declares an XML entity"),
    "utf8": (b"<mediawiki>\n<page>\xc3(</page></mediawiki>", "d.xml, line 2: not valid UTF-8"),
    "cut": (b"<mediawiki>\n<page>", "d.xml, line 2: the dump is cut off"),
    "empty": (b"<mediawiki></mediawiki>", "d.xml: no article is left of 0 pages (there are none)"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_dump_is_one_sentence(tmp_path: Path, name: str) -> None:
    body, message = BAD[name]
    (tmp_path / "d.xml").write_bytes(body)
    done = run(tmp_path, "d.xml")
    assert done.returncode == 2
    assert f"error: {message}" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "data" / "extract").exists()


def test_only_redirects_and_only_long_sentences(tmp_path: Path) -> None:
    done = run(tmp_path, dump(tmp_path / "d.xml", ["#REDIRECT [[x]]"] * 2))
    assert "d.xml: no article is left of 2 pages (2 redirect)." in done.stderr
    done = run(tmp_path, dump(tmp_path / "d.xml", ["Word" + " word" * 9_999 + ".", "No."]))
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "d.xml: no sentence is left of 2 (1 too_long, 1 too_short)." in done.stderr


def test_real_dump(tmp_path: Path, real_data: Path) -> None:
    """Six articles of 2025: a change of the cleaning that moves these figures should be looked at."""
    source = real_data / "wikipedia" / "tiny_dump.xml.bz2"
    done = run(tmp_path, source, min_words=8, pages_per_chunk=10, segments_per_shard=1000)
    assert done.returncode == 0, done.stderr
    counts = json.loads(output(tmp_path)["counts.json"])
    assert counts["pages"] == {"rows_in": 70, "rows_out": 6, "dropped": {"redirect": 64}}
    assert counts["rows_in"] == counts["rows_out"] + sum(counts["dropped"].values())
    assert 1_700 <= counts["rows_out"] <= 1_800
    assert len(list_shards(tmp_path / "data" / "extract")) == 2
    texts = read_folder(tmp_path / "data" / "extract", SEGMENTS).column("text").to_pylist()
    assert [t for t in texts if any(mark in t for mark in ("[[", "{{", "<", "|", "''", "()", "==", "&nbsp"))] == []
    assert "Anarchism is a political philosophy and movement" in texts[0]
