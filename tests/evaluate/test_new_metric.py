"""A new metric is one module, its values in params.yaml and its test: toys dropped into a copy of the tree."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from scipy import stats
from tiny_filler import save_tiny_filler

from pipeline.core.models import load_tokenizer
from pipeline.core.modules import ROOT
from pipeline.core.records import AGREEMENT, PREDICTIONS, RATINGS, SYSTEM_PREDICTIONS
from pipeline.core.shards import read_rows, shard_name, table_of, write_shard
from pipeline.metric.checkpoint import Head, new_metric, save_metric

COPIED = '''"""Words of the source that the candidate copies, times a weight: reads no reference."""

import numpy

from pipeline.core.params import Positive, params
from pipeline.evaluate.metrics import Metric, Reads, Section


@params
class Params:
    """Section `evaluate.toy_copied`."""

    weight: Positive


def score(texts, settings, batch_tokens):
    assert texts.references == ((),) * len(texts.candidates)
    pairs = zip(texts.sources, texts.candidates, strict=True)
    return settings.weight * numpy.array([float(len(set(s.split()) & set(c.split()))) for s, c in pairs])


METRICS = (
    Metric(
        "copied", Reads.SOURCE | Reads.CANDIDATE, score, lambda settings: f"copied words times {settings.weight:g}",
        section=Section("toy_copied", Params, models=lambda settings: ()),
    ),
)
'''
VARIETY = '''"""Different words of a system by all its segments: a score of the whole system."""

import numpy

from pipeline.evaluate.metrics import Level, Metric, Reads


def score(texts, settings, batch_tokens):
    return numpy.array(float(len({word for text in texts.candidates for word in text.split()})))


METRICS = (Metric("variety", Reads.CANDIDATE, score, lambda settings: "different words", Level.SYSTEM),)
'''
SOURCES = ["the cat sat on the mat", "a dog ran to paris", "the small red house", "the bird sat in a house"]
SYSTEMS = {
    "good": ["the cat sat on the mat", "a dog ran to paris", "the small red house", "the bird sat in a house"],
    "fair": ["the cat sat", "a dog ran", "the red house", "the bird sat"],
    "poor": ["the the", "a dog", "the the", "the the bird"],
}
HUMAN = {"good": 3.0, "fair": 2.0, "poor": 1.0}


def rating(pair: str, system: str, segment: int) -> dict[str, Any]:
    return {
        "rating_id": f"{pair}/{system}/{segment}",
        "corpus": "own",
        "split": "test",
        "aspect": "adequacy",
        "reference": SOURCES[segment],
        "other_references": [],
        "candidate": SYSTEMS[system][segment],
        "source": SOURCES[segment],
        "language_pair": pair,
        "system": system,
        "segment": f"{segment}",
        "year": None,
        "raw": None,
        "z": None,
        "score": HUMAN[system] + segment / 10,
    }


ROWS = [rating(pair, system, segment) for pair in ("de-en", "fr-en") for system in SYSTEMS for segment in range(4)]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree with two metrics more, their values in params.yaml, ratings and a checkpoint."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(ROOT / "pipeline", folder / "pipeline", ignore=shutil.ignore_patterns("__pycache__"))
    members = folder / "pipeline" / "evaluate" / "metrics"
    (members / "toy_copied.py").write_text(COPIED, encoding="utf-8")
    (members / "toy_variety.py").write_text(VARIETY, encoding="utf-8")
    document = YAML(typ="safe").load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    document["variants"] = ["all"]
    document["evaluate"] |= {"baselines": ["chrf++", "copied", "variety"], "toy_copied": {"weight": 0.5}}
    with (folder / "params.yaml").open("w", encoding="utf-8") as stream:
        YAML().dump(document, stream)
    write_shard(folder / "collect" / shard_name(0), table_of(ROWS, RATINGS))
    encoder = save_tiny_filler(folder / "encoder", positions=128)
    model = new_metric(str(encoder), Head.ALIGNMENT, ("adequacy",), dropout=0.1, seed=3)
    save_metric(model, load_tokenizer(encoder), folder / "finetune" / "all")
    return folder


def run(project: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(project), "BLEURT_WORKERS": "1", "BLEURT_DEVICE": "cpu"}
    environment["OMP_NUM_THREADS"] = "1"
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=project, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def evaluated(project: Path) -> Path:
    """What the stage evaluate writes."""
    run(project, "pipeline.evaluate", "--ratings", "collect", "--metrics", "finetune", "--out", "out")
    return project / "out"


def by_key(rows: list[dict[str, Any]]) -> dict[tuple[str, str, str], dict[str, Any]]:
    return {(row["metric"], row["language_pair"], row["statistic"]): row for row in rows}


def test_the_stage_evaluate_scores_and_measures_them(evaluated: Path) -> None:
    scores = {
        row["rating_id"]: row["score"]
        for row in read_rows(evaluated / "predictions", PREDICTIONS)
        if row["metric"] == "copied"
    }
    assert (scores["de-en/good/0"], scores["fr-en/poor/1"]) == (2.5, 1.0)  # five of the source's words, two of them
    systems = {
        (row["language_pair"], row["system"]): row["score"]
        for row in read_rows(evaluated / "system_predictions", SYSTEM_PREDICTIONS)
    }
    assert systems["de-en", "good"] == len({word for text in SYSTEMS["good"] for word in text.split()})
    assert systems["fr-en", "poor"] == 4.0  # the, a, dog, bird
    found = by_key(list(read_rows(evaluated / "agreement", AGREEMENT)))
    variety = [systems["de-en", system] for system in SYSTEMS]
    expected = stats.pearsonr(list(HUMAN.values()), variety).statistic
    assert found["variety", "de-en", "system_pearson"]["value"] == pytest.approx(expected, abs=1e-8)
    assert found["variety", "average", "system_kendall"]["value"] == pytest.approx(1.0)
    assert found["copied", "average", "system_kendall"]["value"] == pytest.approx(1.0)
    assert found["variety", "average", "system_kendall"]["count"] == 6
    assert ("variety", "average", "kendall") not in found and ("copied", "average", "kendall") in found
    signatures = json.loads((evaluated / "method.json").read_text())["signatures"]
    assert (signatures["copied"], signatures["variety"]) == ("copied words times 0.5", "different words")
    (difference,) = json.loads((evaluated / "significance.json").read_text())
    assert difference["against"] in ("chrf++", "copied")


def test_bleurt_benchmark_gives_the_same_numbers(project: Path, evaluated: Path) -> None:
    arguments = ["--ratings", "collect", "-c", "finetune/all", "--resamples", "300", "--permutations", "300"]
    found = json.loads(run(project, "pipeline.scoring", "benchmark", *arguments, "--format", "json"))
    expected = by_key(list(read_rows(evaluated / "agreement", AGREEMENT)))
    assert {key: row["value"] for key, row in by_key(found["agreement"]).items()} == {
        key: pytest.approx(row["value"], abs=1e-5) for key, row in expected.items()
    }
    assert found["signatures"]["variety"] == "different words"


def test_bleurt_compare_takes_them_too(project: Path) -> None:
    for name, lines in {"source": SOURCES, **SYSTEMS}.items():
        (project / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    arguments = ["-r", "source.txt", "-s", "source.txt", "-t", "good.txt", "poor.txt", "-c", "finetune/all"]
    arguments += ["--baselines", "variety", "copied", "ter", "--format", "json", "--permutations", "100"]
    found = json.loads(run(project, "pipeline.scoring", "compare", *arguments))
    ter, variety, copied = found["baselines"]
    assert ter["metric"] == "TER" and ter["scores"]["good.txt"] == 0.0
    assert variety["scores"] == {"good.txt": 15.0, "poor.txt": 4.0} and variety["p_values"]["poor.txt"] is None
    assert copied["scores"]["good.txt"] == pytest.approx(0.5 * (5 + 5 + 4 + 6) / 4)
    assert 0 < copied["p_values"]["poor.txt"] <= 1
