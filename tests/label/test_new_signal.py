"""A signal is one file: a toy signal, dropped into a copy of the tree, labels pairs, and nothing else changes."""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest

from pipeline.core.modules import ROOT
from pipeline.core.records import PAIRS
from pipeline.core.shards import shard_name, table_of, write_shard

TOY = '''"""How much longer the candidate is than the reference."""

import numpy

from pipeline.core.params import Positive, params

COLUMNS = ("toy_characters", "toy_words")


@params
class Params:
    unit: Positive


def models(params):
    return ()


def score(pairs, params):
    sides = [pairs.column(name).to_pylist() for name in ("reference", "candidate")]
    rows = [(len(c) - len(z), len(c.split()) - len(z.split())) for z, c in zip(*sides, strict=True)]
    return numpy.array(rows, numpy.float32).reshape(-1, 2) / numpy.float32(params.unit)
'''

PARAMS = "profile: tiny\nlabel:\n  bleu: {language: en}\n  toy: {unit: 2}\nprofiles: {tiny: {}}\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the code with params.yaml and one shard of two pairs."""
    shutil.copytree(ROOT / "pipeline", tmp_path / "pipeline", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "params.yaml").write_text(PARAMS, encoding="utf-8")
    nothing = {"pivot": None, "mask_style": None, "masks": None, "dropped_words": 0, "parent_id": None}
    texts = [("a red cat .", "a cat ."), ("a dog", "a big dog")]
    rows = [
        {"pair_id": f"{i}/x", "segment_id": f"{i}", "technique": "mask_fill", "reference": z, "candidate": c, **nothing}
        for i, (z, c) in enumerate(texts)
    ]
    write_shard(tmp_path / "pairs" / shard_name(0), table_of(rows, PAIRS))
    return tmp_path


def label(tree: Path, signal: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pipeline.label", "--params", "params.yaml", "--signal", signal]
    command += ["--pairs", "pairs", "--out", f"label/{signal}"]
    return subprocess.run(command, cwd=tree, env={"PYTHONPATH": "."}, capture_output=True, text=True, check=False)


def sums(tree: Path) -> dict[str, str]:
    """File of the code -> checksum."""
    files = sorted((tree / "pipeline").rglob("*.py"))
    return {str(file.relative_to(tree)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def test_a_new_file_is_a_new_signal(tree: Path) -> None:
    refused = label(tree, "toy")
    assert refused.returncode == 2
    assert "invalid choice: 'toy' (choose from" in refused.stderr
    (tree / "pipeline/label/signals/toy.py").write_text(TOY, encoding="utf-8")
    done = label(tree, "toy")
    assert (done.returncode, done.stdout) == (0, "label toy: 2 pairs\n"), done.stderr
    shard = pyarrow.parquet.read_table(tree / "label/toy" / shard_name(0))
    assert shard.to_pylist() == [
        {"pair_id": "0/x", "toy_characters": -2, "toy_words": -0.5},
        {"pair_id": "1/x", "toy_characters": 2, "toy_words": 0.5},
    ]
    assert [field.type for field in shard.schema] == [pyarrow.string(), pyarrow.float32(), pyarrow.float32()]
    changed = {name for name, digest in sums(tree).items() if sums(ROOT).get(name) != digest}
    assert changed == {"pipeline/label/signals/toy.py"}
    assert label(tree, "bleu").returncode == 0


def test_its_params_are_checked_as_those_of_any_other(tree: Path) -> None:
    (tree / "pipeline/label/signals/toy.py").write_text(TOY, encoding="utf-8")
    (tree / "params.yaml").write_text(PARAMS.replace("unit: 2", "unit: 0"), encoding="utf-8")
    failed = label(tree, "toy")
    assert failed.returncode == 2
    assert failed.stderr.splitlines()[-1] == "error: params.yaml: label.toy.unit: must be above 0, not 0."
