"""Layouts are found by name: a new one is its module, its corpus in params.yaml, its test."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.collect.corpus import LAYOUTS, Layout
from pipeline.core import modules
from pipeline.core.modules import ROOT
from pipeline.core.records import RATINGS
from pipeline.core.shards import read_rows

TOY = '''
"""Toy ratings: a line holds reference, candidate and a rating from 0 to 5, with slashes between them."""

from collections import Counter

from pipeline.collect.corpus import Corpus, Layout, Loaded, Rating, number_on_scale
from pipeline.files.fetch import local
from pipeline.files.lines import read_lines

LAYOUT = Layout(raw=True, standardised=False)


def load(corpus: Corpus) -> Loaded:
    """Ratings in the order of lines."""
    ratings = []
    for line, content in enumerate(read_lines(local(corpus.parts[0].path, None)), start=1):
        reference, candidate, rated = content.split("/")
        raw = number_on_scale(rated, "rating", corpus.scale, corpus.parts[0].path, line)
        ratings.append(
            Rating(str(line), "adequacy", reference, (), candidate, None, None, None, None, None, raw, None, raw / 5)
        )
    return Loaded(ratings, Counter())
'''
PARAMS = """
profile: demo
profiles:
  demo:
    collect:
      corpora:
        - {name: played, layout: toy, parts: [{path: toys.txt}], split: test, scale: SCALE}
collect:
  defaults:
    corpora: {language_pairs: ["*"], years: [], test_fraction: null, scale: null}
  without: []
  language_pairs: null
  validation_fraction: 0.1
  max_words: 512
  undo_character_references: true
  rows_per_shard: 25
  drift: {train_alpha: 0, test_alpha: 0}
  seed: 1
"""


def test_every_layout_says_what_params_may_say_of_it() -> None:
    found = modules.load_all(LAYOUTS)
    assert set(found) >= {"hub", "own", "webnlg", "wmt17", "wmt18", "wmt19", "wmt_daseg"}
    assert all(isinstance(module.LAYOUT, Layout) and callable(module.load) for module in found.values())


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A copy of the tree with a layout more."""
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "pipeline", tmp_path / "pipeline", ignore=skip)
    (tmp_path / "pipeline" / "collect" / "layouts" / "toy.py").write_text(TOY, encoding="utf-8")
    (tmp_path / "toys.txt").write_text("A cat./The cat./4\nA dog.//0\n", encoding="utf-8")
    return tmp_path


def collected(house: Path, scale: str) -> subprocess.CompletedProcess[str]:
    (house / "params.yaml").write_text(PARAMS.replace("SCALE", scale), encoding="utf-8")
    command = [sys.executable, "-m", "pipeline.collect", "--out", "data/collect"]
    return subprocess.run(
        command, cwd=house, env={"PYTHONPATH": str(house)}, capture_output=True, text=True, check=False
    )


def test_a_toy_layout_is_collected_by_its_name(house: Path) -> None:
    result = collected(house, "5")
    assert (result.returncode, result.stdout) == (0, "collect: played: 2 of 2 rows (2 test)\n")
    rows = list(read_rows(house / "data" / "collect", RATINGS))
    assert [(row["rating_id"], row["candidate"], row["score"]) for row in rows] == [
        ("played/1", "The cat.", 0.8),
        ("played/2", "", 0.0),
    ]


def test_what_the_toy_layout_says_of_itself_holds(house: Path) -> None:
    result = collected(house, "null")
    expected = "error: params.yaml: collect.corpora[0].scale: must be a number, ratings of layout toy are raw ones.\n"
    assert (result.returncode, result.stderr) == (2, expected)
