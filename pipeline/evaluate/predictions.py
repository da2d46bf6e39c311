"""Scores of one metric for every rated test row: a baseline's, or a trained checkpoint's ("bleurt/<variant>").

A row with several references is scored against each and keeps the highest (paper, section 5.3). Equal pairs of
reference and candidate are scored once. IDF is counted over the references of one corpus and language pair, as the
metrics' authors do with a test set; a baseline leaves out the corpora and language pairs that it cannot read.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy

from pipeline.core.errors import ModelError
from pipeline.core.records import PREDICTIONS, RATINGS
from pipeline.core.shards import read_shard, table_of
from pipeline.core.work import Outcome
from pipeline.evaluate.metrics.counts import count_words, reads
from pipeline.evaluate.metrics.moverscore import moverscore
from pipeline.evaluate.names import ENCODED, TRAINED, Baseline
from pipeline.label.signals import bertscore
from pipeline.metric.prediction import predict

Row = dict[str, Any]
UNREADABLE = "its writing cannot be read by the baseline"


@dataclass(frozen=True)
class ScoringParams:
    """Which metrics, one a shard, and how they are run; `batch_tokens` changes speed and memory only."""

    metrics: tuple[str, ...]
    bertscore_model: str
    bertscore_layer: int
    max_tokens: int
    batch_tokens: int


def read_test_rows(shards: Sequence[Path]) -> list[Row]:
    """The rows with split "test" of the rating shards, in order."""
    return [row for shard in shards for row in read_shard(shard, RATINGS).to_pylist() if row["split"] == "test"]


def score_metric(index: int, inputs: Sequence[Path], params: ScoringParams) -> Outcome:
    """Shard `index` of predictions: metric `params.metrics[index]` on all test rows of the rating shards `inputs`.

    A model folder may stand last in `inputs`: the checkpoint of a trained metric, or BERTScore's encoder.
    """
    name = params.metrics[index]
    rows = read_test_rows([file for file in inputs if file.is_file()])
    scores = score_rows(name, rows, inputs[-1], params)
    for row, score in zip(rows, scores, strict=True):
        if not numpy.isfinite(score) and name.startswith(TRAINED):
            raise ModelError(f"{name}: gives {score} for the rating {row['rating_id']}; a metric must give a number.")
    predictions = [
        {"rating_id": row["rating_id"], "metric": name, "score": float(score)}
        for row, score in zip(rows, scores, strict=True)
        if numpy.isfinite(score)
    ]
    left = len(rows) - len(predictions)
    return Outcome(table_of(predictions, PREDICTIONS), len(rows), len(predictions), {UNREADABLE: left} if left else {})


def score_rows(name: str, rows: Sequence[Row], folder: Path, params: ScoringParams) -> numpy.ndarray:
    """Scores of `rows` (rows,): the best over each row's references, higher is better.

    NaN in the corpora and language pairs whose writing a baseline cannot read.
    """
    if name.startswith(TRAINED):
        return _best_scores(name, rows, folder, params)
    scores = numpy.full(len(rows), numpy.nan)
    places: dict[tuple[str, str | None], list[int]] = {}
    for place, row in enumerate(rows):
        places.setdefault((row["corpus"], row["language_pair"]), []).append(place)
    for members in places.values():
        mine = [rows[place] for place in members]
        if reads(Baseline(name), [row["reference"] for row in mine]):
            scores[members] = _best_scores(name, mine, folder, params)
    return scores


def _best_scores(name: str, rows: Sequence[Row], folder: Path, params: ScoringParams) -> numpy.ndarray:
    pairs, row_pairs = _unique_pairs(rows)
    references, candidates = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    values = _score_pairs(name, references, candidates, folder, params)
    if values.ndim == 1:
        values = values[:, None]
    outputs = (
        _output_of_aspect(folder, [row["aspect"] for row in rows]) if name.startswith(TRAINED) else [0] * len(rows)
    )
    return numpy.array([values[ids, k].max() for ids, k in zip(row_pairs, outputs, strict=True)], dtype=numpy.float64)


def _unique_pairs(rows: Sequence[Row]) -> tuple[list[tuple[str, str]], list[list[int]]]:
    """All distinct (reference, candidate) pairs, and for each row the numbers of its own."""
    numbers: dict[tuple[str, str], int] = {}
    row_pairs = [
        [numbers.setdefault((z, row["candidate"]), len(numbers)) for z in (row["reference"], *row["other_references"])]
        for row in rows
    ]
    return list(numbers), row_pairs


def _score_pairs(
    name: str, references: Sequence[str], candidates: Sequence[str], folder: Path, params: ScoringParams
) -> numpy.ndarray:
    """Scores of pairs, float (pairs,) or (pairs, outputs)."""
    if name.startswith(TRAINED):
        return predict(folder, references, candidates, params.max_tokens, params.batch_tokens)
    baseline = Baseline(name)
    if baseline not in ENCODED:
        return count_words(baseline, references, candidates)
    settings = bertscore.Params(
        model=str(folder),
        layer=params.bertscore_layer,
        idf=baseline is not Baseline.BERTSCORE,
        baseline=None,
        batch_tokens=params.batch_tokens,
    )
    if baseline is Baseline.MOVERSCORE:
        return moverscore(references, candidates, settings)
    return bertscore.bertscore(references, candidates, settings)[:, 2]


def _output_of_aspect(folder: Path, aspects: Sequence[str]) -> list[int]:
    """Which output of the checkpoint judges each row's aspect; a checkpoint with one output judges them all."""
    labels = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("id2label", {})
    outputs = {label: int(number) for number, label in labels.items()}
    if len(outputs) <= 1:
        return [0] * len(aspects)
    unknown = sorted(set(aspects) - set(outputs))
    if unknown:
        raise ModelError(f"{folder}: judges {', '.join(sorted(outputs))}, but a test row is rated for {unknown[0]}.")
    return [outputs[aspect] for aspect in aspects]
