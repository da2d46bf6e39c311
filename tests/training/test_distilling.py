"""Distilling: what is learned from people, from teachers and from grades; what is counted; what is refused."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy
import pytest
from test_finetuning import SCHEDULE, rating
from test_finetuning import write as write_ratings
from tiny_filler import save_tiny_filler

from pipeline.core.errors import InputError, ParamsError
from pipeline.core.records import GRADED, PAIRS
from pipeline.core.shards import shard_name, table_of, write_shard
from pipeline.model.checkpoint import Head, new_metric, save_metric
from pipeline.model.loading import load_tokenizer
from pipeline.model.predict import predict
from pipeline.training.distilling import DistilParams, Inputs, distil, grades, taught
from pipeline.training.finetuning import read_rated

PARAMS = DistilParams(
    teachers=("all", "none"),
    start="none",
    aspects=("adequacy",),
    rated=3,
    taught=5,
    graded=4,
    members=1,
    max_tokens=16,
    batch_pairs=2,
    dropout=0.0,
    batch_tokens=64,
    schedule=SCHEDULE,
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BLEURT_DEVICE", "cpu")
    save_tiny_filler(tmp_path / "encoder", positions=32)
    tokenizer = load_tokenizer(tmp_path / "encoder")
    for seed, variant in enumerate(("all", "none")):
        model = new_metric(str(tmp_path / "encoder"), Head.CLS, ["adequacy"], 0.0, seed)
        for stage in ("finetune", "pretrain"):
            save_metric(model, tokenizer, tmp_path / stage / variant)
    same = {**dict.fromkeys(PAIRS.names), "segment_id": "s", "technique": "mask_fill", "reference": "the cat"}
    pairs = [{**same, "pair_id": f"{i}", "candidate": "cat " * (i + 1), "dropped_words": 0} for i in range(9)]
    write_shard(tmp_path / "pairs" / shard_name(0), table_of(pairs, PAIRS))
    graded = [
        {"pair_id": f"{i}", "reference": "the dog", "candidate": "a " * i, "kind": "half", "grade": float(i)}
        for i in range(7)
    ]
    write_shard(tmp_path / "graded" / shard_name(0), table_of(graded, GRADED))
    rows = [rating(f"t{i}", "train", "adequacy", "a cat " * i, i / 10) for i in range(6)]
    rows += [rating(f"v{i}", "validation", "adequacy", "the dog " * i, i / 10) for i in range(4)]
    write_ratings(tmp_path / "ratings", rows)
    return tmp_path


def run(folder: Path, **changes: Any) -> Path:
    inputs = Inputs(*(folder / name for name in ("finetune", "pretrain", "pairs", "graded", "ratings")))
    distil(dataclasses.replace(PARAMS, **changes), inputs, folder / "out")
    return folder / "out"


def test_teachers_are_averaged_and_grades_stand_on_the_scale_of_the_ratings(project: Path) -> None:
    lesson = taught(PARAMS, project / "finetune", project / "pairs")
    one, other = (
        predict(project / "finetune" / name, lesson.references, lesson.candidates, 16, 64) for name in ("all", "none")
    )
    assert lesson.targets.shape == (5, 1) and numpy.abs(one - other).max() > 1e-4
    numpy.testing.assert_allclose(lesson.targets, (one + other) / 2, rtol=1e-6)
    rated = read_rated(project / "ratings", "train", ["adequacy"])
    graded = grades(PARAMS, project / "graded", rated)
    steps = [len(text.split()) for text in graded.candidates]
    expected = 0.25 + numpy.std([0.0, 0.1, 0.2, 0.3, 0.4, 0.5]) * numpy.array(steps)
    numpy.testing.assert_allclose(graded.targets[:, 0], expected, rtol=1e-5)
    assert len(set(steps)) == 4


def test_the_metric_learns_from_all_three(project: Path) -> None:
    out = run(project)
    training = json.loads((out / "training.json").read_text())
    assert (training["rated"], training["taught"], training["graded"], training["pairs"]) == (6, 5, 4, 15)
    assert json.loads((out / "counts.json").read_text()) == {"rows_in": 19, "rows_out": 19, "dropped": {}}
    scores = predict(out, ["the cat"], ["a cat"], 16, 64)
    assert scores.shape == (1, 1)
    assert not (project / ".work" / "distil").exists() or not list((project / ".work" / "distil").iterdir())
    before = run(project, taught=0, graded=0)
    assert json.loads((before / "training.json").read_text())["pairs"] == 6


def test_without_teachers_nothing_is_made(project: Path) -> None:
    out = run(project, teachers=())
    assert [file.name for file in out.iterdir()] == ["counts.json"]


def test_what_is_not_there_is_named(project: Path) -> None:
    with pytest.raises(InputError, match="finetune/no_bleu: no such checkpoint"):
        run(project, teachers=("all", "no_bleu"))
    with pytest.raises(InputError, match="pretrain/no_bleu: no such checkpoint"):
        run(project, start="no_bleu")
    with pytest.raises(ParamsError, match=r"distil\.teachers: must name no variant twice"):
        dataclasses.replace(PARAMS, teachers=("all", "all"))
