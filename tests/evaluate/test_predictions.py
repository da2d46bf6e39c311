"""Scoring rated rows: several references, several outputs, equal pairs, and a metric that fails."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy
import pytest
from tiny_filler import save_tiny_filler

from pipeline.core.errors import ModelError
from pipeline.core.records import RATINGS
from pipeline.core.shards import shard_name, table_of, write_shard
from pipeline.evaluate import predictions
from pipeline.evaluate.predictions import UNREADABLE, ScoringParams, read_test_rows, score_metric, score_rows

PARAMS = ScoringParams(("bleurt/x",), bertscore_model="", bertscore_layer=1, max_tokens=16, batch_tokens=64)


def row(number: int, reference: str, candidate: str, **changes: Any) -> dict[str, Any]:
    return {
        "rating_id": f"r{number}",
        "corpus": "own",
        "split": "test",
        "aspect": "adequacy",
        "reference": reference,
        "other_references": [],
        "candidate": candidate,
        "source": None,
        "language_pair": None,
        "system": None,
        "segment": None,
        "year": None,
        "raw": None,
        "z": None,
        "score": float(number),
        **changes,
    }


def test_a_row_with_several_references_keeps_the_highest_score(tmp_path: Path) -> None:
    rows = [
        row(0, "a b c d", "a b c e"),
        row(1, "x y z w", "a b c e", other_references=["a b c e", "a b c d"]),
        row(2, "x y z w", "a b c e", other_references=["a b c d"]),
    ]
    assert score_rows("ter", rows, tmp_path, PARAMS).tolist() == pytest.approx([-25.0, 0.0, -25.0])


def fake_checkpoint(folder: Path, labels: list[str]) -> Path:
    folder.mkdir(exist_ok=True)
    labels_by_number = {str(number): label for number, label in enumerate(labels)}
    (folder / "config.json").write_text(json.dumps({"id2label": labels_by_number}))
    return folder


def by_length(folder: Path, references: Any, candidates: Any, max_tokens: int, batch_tokens: int) -> numpy.ndarray:
    """A checkpoint with two outputs: length of the candidate, and minus that of the reference."""
    assert len(set(zip(references, candidates, strict=True))) == len(references), "an equal pair came twice"
    return numpy.array([[len(c), -len(z)] for z, c in zip(references, candidates, strict=True)], dtype=numpy.float32)


def test_each_aspect_reads_its_own_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictions, "predict", by_length)
    folder = fake_checkpoint(tmp_path / "model", ["fluency", "grammar"])
    rows = [row(0, "abc", "ab", aspect="grammar"), row(1, "abc", "ab", aspect="fluency")]
    assert score_rows("bleurt/x", rows, folder, PARAMS).tolist() == [-3.0, 2.0]


def test_an_aspect_that_the_checkpoint_does_not_judge_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predictions, "predict", by_length)
    folder = fake_checkpoint(tmp_path / "model", ["fluency", "grammar"])
    with pytest.raises(ModelError, match="judges fluency, grammar, but a test row is rated for adequacy"):
        score_rows("bleurt/x", [row(0, "abc", "ab")], folder, PARAMS)


def test_a_checkpoint_with_one_output_judges_every_aspect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictions, "predict", lambda *arguments: by_length(*arguments)[:, :1])
    folder = fake_checkpoint(tmp_path / "model", ["score"])
    rows = [row(0, "abc", "ab", aspect="grammar"), row(1, "abc", "a")]
    assert score_rows("bleurt/x", rows, folder, PARAMS).tolist() == [2.0, 1.0]


def test_a_score_that_is_no_number_names_metric_and_rating(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictions, "predict", lambda *_: numpy.array([numpy.nan]))
    folder = fake_checkpoint(tmp_path / "model", ["score"])
    shard = tmp_path / shard_name(0)
    write_shard(shard, table_of([row(7, "abc", "")], RATINGS))
    with pytest.raises(ModelError, match="bleurt/x: gives nan for the rating r7"):
        score_metric(0, [shard, folder], PARAMS)


def test_idf_is_counted_over_one_corpus_and_language_pair(tmp_path: Path) -> None:
    encoder = save_tiny_filler(tmp_path / "encoder")
    mine = [row(0, "the cat sat", "the dog sat"), row(1, "the bird", "the mat")]
    others = [row(2 + i, "paris", "the cat", corpus="other", language_pair="de-en") for i in range(5)]
    for name in ("bertscore_idf", "moverscore"):
        alone = score_rows(name, mine, encoder, PARAMS)
        assert score_rows(name, [others[0], *mine, *others[1:]], encoder, PARAMS)[1:3] == pytest.approx(alone)


def test_a_baseline_leaves_out_what_it_cannot_read(tmp_path: Path) -> None:
    rows = [
        row(0, "the cat sat", "the dog sat", language_pair="de-en"),
        row(1, "кот спит", "кот спал", language_pair="en-ru"),
        row(2, "猫在睡觉。", "猫睡觉。", language_pair="en-zh"),
    ]
    read = {
        name: numpy.isfinite(score_rows(name, rows, tmp_path, PARAMS)).tolist() for name in ("rougeL", "ter", "chrf++")
    }
    assert read == {"rougeL": [True, False, False], "ter": [True, True, False], "chrf++": [True, True, True]}
    shard = tmp_path / shard_name(0)
    write_shard(shard, table_of(rows, RATINGS))
    found = score_metric(0, [shard], dataclasses.replace(PARAMS, metrics=("rougeL",)))
    assert (found.rows_in, found.rows_out, found.dropped) == (3, 1, {UNREADABLE: 2})


def test_only_test_rows_are_read_from_all_shards_in_order(tmp_path: Path) -> None:
    shards = [tmp_path / shard_name(0), tmp_path / shard_name(1)]
    write_shard(shards[0], table_of([row(0, "a", "b", split="train"), row(1, "a", "b")], RATINGS))
    write_shard(shards[1], table_of([row(2, "a", ""), row(3, "a", "b", split="validation")], RATINGS))
    assert [found["rating_id"] for found in read_test_rows(shards)] == ["r1", "r2"]
