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
from pipeline.evaluate.metrics import Level, Metric, Reads, Texts, known_metrics
from pipeline.evaluate.metrics.embeddings import Encoder
from pipeline.evaluate.predictions import (
    NO_NUMBER,
    SOURCELESS,
    UNREADABLE,
    ScoringParams,
    predict_rows,
    rows_of,
    score_metric,
    trained,
)
from pipeline.evaluate.predictions import score_rows as score_rows_of
from pipeline.metric import prediction

PARAMS = ScoringParams(("bleurt/x",), settled={}, max_tokens=16, batch_tokens=64)


def score_rows(metric: Metric | str, rows: list[dict[str, Any]], settings: Any = None) -> numpy.ndarray:
    """Scores of rows by a metric or by its name."""
    metric = known_metrics()[metric] if isinstance(metric, str) else metric
    return score_rows_of(metric, settings, rows, batch_tokens=64).values


def checkpoint(folder: Path) -> Metric:
    return trained("bleurt/x", folder, max_tokens=16)


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


def test_a_row_with_several_references_keeps_the_highest_score() -> None:
    rows = [
        row(0, "a b c d", "a b c e"),
        row(1, "x y z w", "a b c e", other_references=["a b c e", "a b c d"]),
        row(2, "x y z w", "a b c e", other_references=["a b c d"]),
    ]
    assert score_rows("ter", rows).tolist() == pytest.approx([-25.0, 0.0, -25.0])


def fake_checkpoint(folder: Path, labels: list[str]) -> Path:
    folder.mkdir(exist_ok=True)
    labels_by_number = {str(number): label for number, label in enumerate(labels)}
    (folder / "config.json").write_text(json.dumps({"id2label": labels_by_number}))
    return folder


def by_length(
    folder: Path, references: Any, candidates: Any, max_tokens: int, batch_tokens: int, precision: str
) -> numpy.ndarray:
    """A checkpoint with two outputs: length of the candidate, and minus that of the reference."""
    assert len(set(zip(references, candidates, strict=True))) == len(references), "an equal pair came twice"
    return numpy.array([[len(c), -len(z)] for z, c in zip(references, candidates, strict=True)], dtype=numpy.float32)


def test_each_aspect_reads_its_own_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "predict", by_length)
    folder = fake_checkpoint(tmp_path / "model", ["fluency", "grammar"])
    rows = [row(0, "abc", "ab", aspect="grammar"), row(1, "abc", "ab", aspect="fluency")]
    assert score_rows(checkpoint(folder), rows).tolist() == [-3.0, 2.0]


def test_an_aspect_that_the_checkpoint_does_not_judge_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prediction, "predict", by_length)
    folder = fake_checkpoint(tmp_path / "model", ["fluency", "grammar"])
    with pytest.raises(ModelError, match="judges fluency, grammar, but a test row is rated for adequacy"):
        score_rows(checkpoint(folder), [row(0, "abc", "ab")])


def test_a_checkpoint_with_one_output_judges_every_aspect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "predict", lambda *arguments: by_length(*arguments)[:, :1])
    folder = fake_checkpoint(tmp_path / "model", ["score"])
    rows = [row(0, "abc", "ab", aspect="grammar"), row(1, "abc", "a")]
    assert score_rows(checkpoint(folder), rows).tolist() == [2.0, 1.0]


def test_a_score_that_is_no_number_names_metric_and_rating(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "predict", lambda *_: numpy.array([numpy.nan]))
    folder = fake_checkpoint(tmp_path / "model", ["score"])
    shard = tmp_path / shard_name(0)
    write_shard(shard, table_of([row(7, "abc", "")], RATINGS))
    with pytest.raises(ModelError, match="bleurt/x: gives nan for the rating r7"):
        score_metric(0, [shard, folder], PARAMS)


def test_idf_is_counted_over_one_corpus_and_language_pair(tmp_path: Path) -> None:
    encoder = Encoder(str(save_tiny_filler(tmp_path / "encoder")), layer=1)
    mine = [row(0, "the cat sat", "the dog sat"), row(1, "the bird", "the mat")]
    others = [row(2 + i, "paris", "the cat", corpus="other", language_pair="de-en") for i in range(5)]
    for name in ("bertscore_idf", "moverscore"):
        alone = score_rows(name, mine, encoder)
        assert score_rows(name, [others[0], *mine, *others[1:]], encoder)[1:3] == pytest.approx(alone)


def test_a_baseline_leaves_out_what_it_cannot_read(tmp_path: Path) -> None:
    rows = [
        row(0, "the cat sat", "the dog sat", language_pair="de-en"),
        row(1, "кот спит", "кот спал", language_pair="en-ru"),
        row(2, "猫在睡觉。", "猫睡觉。", language_pair="en-zh"),
    ]
    read = {name: numpy.isfinite(score_rows(name, rows)).tolist() for name in ("rougeL", "ter", "chrf++")}
    assert read == {"rougeL": [True, False, False], "ter": [True, True, False], "chrf++": [True, True, True]}
    shard = tmp_path / shard_name(0)
    write_shard(shard, table_of(rows, RATINGS))
    found = score_metric(0, [shard], dataclasses.replace(PARAMS, metrics=("rougeL",)))
    assert (found.rows_in, found.rows_out, found.dropped) == (3, 1, {f"rougeL: {UNREADABLE}": 2})


def test_only_test_rows_are_read_from_all_shards_in_order(tmp_path: Path) -> None:
    shards = [tmp_path / shard_name(0), tmp_path / shard_name(1)]
    write_shard(shards[0], table_of([row(0, "a", "b", split="train"), row(1, "a", "b")], RATINGS))
    write_shard(shards[1], table_of([row(2, "a", ""), row(3, "a", "b", split="validation")], RATINGS))
    assert [found["rating_id"] for found in rows_of(shards, "test")] == ["r1", "r2"]


def test_equal_texts_are_scored_once_and_only_what_a_metric_reads_tells_them_apart() -> None:
    seen: list[Texts] = []

    def score(texts: Texts, settings: Any, batch_tokens: int) -> numpy.ndarray:
        seen.append(texts)
        return numpy.arange(len(texts.candidates), dtype=numpy.float64)

    rows = [row(0, "a", "x", source="s"), row(1, "b", "x", source="s"), row(2, "c", "x", source="t")]
    metric = Metric("toy", Reads.SOURCE | Reads.CANDIDATE, score, lambda settings: "toy")
    assert score_rows(metric, rows).tolist() == [0.0, 0.0, 1.0]
    assert seen == [Texts(((), ()), ("s", "t"), ("x", "x"))]


def test_a_metric_may_read_all_references_at_once() -> None:
    def score(texts: Texts, settings: Any, batch_tokens: int) -> numpy.ndarray:
        return numpy.array([float(len(references)) for references in texts.references])

    metric = Metric("toy", Reads.REFERENCES | Reads.CANDIDATE, score, lambda settings: "toy")
    rows = [row(0, "a", "x", other_references=["b", "c"]), row(1, "a", "x")]
    assert score_rows(metric, rows).tolist() == [3.0, 1.0]


def test_a_metric_that_reads_sources_leaves_out_a_language_pair_without_them() -> None:
    def score(texts: Texts, settings: Any, batch_tokens: int) -> numpy.ndarray:
        pairs = zip(texts.sources, texts.candidates, strict=True)
        return numpy.array([float(source == candidate) for source, candidate in pairs])

    metric = Metric("toy", Reads.SOURCE | Reads.CANDIDATE, score, lambda settings: "toy")
    rows = [row(0, "a", "x", source="x", language_pair="de-en"), row(1, "a", "x"), row(2, "a", "x", source="x")]
    found = predict_rows(metric, None, rows, 64)
    assert found.rows == [{"rating_id": "r0", "metric": "toy", "score": 1.0}]
    assert found.left_out == {SOURCELESS: 2}


def test_a_number_that_a_baseline_does_not_give_is_counted() -> None:
    def score(texts: Texts, settings: Any, batch_tokens: int) -> numpy.ndarray:
        return numpy.array([1.0 if candidate else numpy.nan for candidate in texts.candidates])

    metric = Metric("toy", Reads.CANDIDATE, score, lambda settings: "toy")
    found = predict_rows(metric, None, [row(0, "a", "x"), row(1, "a", "")], 64)
    assert [one["rating_id"] for one in found.rows] == ["r0"] and found.left_out == {NO_NUMBER: 1}


def test_a_system_is_scored_by_its_outputs_each_once() -> None:
    def score(texts: Texts, settings: Any, batch_tokens: int) -> numpy.ndarray:
        return numpy.array(float(len(texts.candidates)))

    metric = Metric("toy", Reads.REFERENCES | Reads.CANDIDATE, score, lambda settings: "toy", Level.SYSTEM)
    rows = [
        row(0, "one", "x", system="b", segment="1"),
        row(1, "one", "x", system="b", segment="1"),  # judged twice
        row(2, "two", "x", system="a+b", segment="2"),
        row(3, "two", "y", system="c", segment="2"),
        row(4, "two", "y"),  # of no system
    ]
    found = predict_rows(metric, None, rows, 64)
    assert [(one["language_pair"], one["system"], one["score"]) for one in found.rows] == [
        ("all", "a", 1.0),
        ("all", "b", 2.0),
        ("all", "c", 1.0),
    ]


def test_a_metric_of_systems_leaves_out_a_language_pair_that_it_cannot_read() -> None:
    chinese = row(0, "猫在睡觉。", "猫睡觉。", system="a")
    english = row(1, "the cat sat", "the cat", system="a", language_pair="de-en")
    found = predict_rows(known_metrics()["bleu"], None, [chinese, english], 64)
    assert [one["language_pair"] for one in found.rows] == ["de-en"] and found.left_out == {UNREADABLE: 1}
