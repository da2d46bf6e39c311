"""What metrics say of rated rows: scores of every row, or of every system by a metric that scores whole systems.

A baseline and a trained checkpoint are both a `Metric`; the trained one is named "bleurt/<variant>". A metric that
reads one reference scores a row with several references against each and keeps the highest (paper, section 5.3). Equal
texts are scored once. A metric leaves out the corpora and language pairs that it cannot read, each with the reason.
A baseline whose model or server cannot be used leaves out everything; nothing else stops for it.

A system's texts are the rated rows that name it, each once. A row of "a+b" is an output that the systems a and b share.
"""

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy

from pipeline.core.errors import ModelError
from pipeline.core.records import NO_PAIR, PREDICTIONS, RATINGS, SYSTEM_PREDICTIONS, TRAINED
from pipeline.core.shards import read_shard, table_of
from pipeline.core.work import Outcome
from pipeline.evaluate.metrics import Level, Metric, Reads, Row, Texts, UnreadableError, known_metrics, settings_of

UNREADABLE = "its writing cannot be read by the baseline"
SOURCELESS = "a row has no source, which the metric reads"
NO_NUMBER = "the metric gives no number"
OF = ": "
"""Between a metric's name and the reason why it leaves out rows."""
BESIDE = {
    "reference": (Reads.REFERENCE, "the reference"),
    "source": (Reads.SOURCE, "the source instead of a reference"),
    "both": (Reads.REFERENCE | Reads.SOURCE, "reference and source"),
}
"""What a checkpoint reads beside the candidate (`pipeline.metric.beside`)."""


@dataclass(frozen=True)
class ScoringParams:
    """Which metrics are run, one for each shard, and how.

    `settled`: settings of the metrics' sections by their names. `max_tokens`: a pair is cut to this length for trained
    metrics. `batch_tokens`: tokens in a batch, which changes speed and memory only.
    """

    metrics: tuple[str, ...]
    settled: dict[str, Any]
    max_tokens: int
    batch_tokens: int


@dataclass(frozen=True)
class Predictions:
    """Rows of PREDICTIONS, or of SYSTEM_PREDICTIONS; `left_out` counts the rated rows, or the systems, by reason."""

    rows: list[Row]
    left_out: dict[str, int]


@dataclass(frozen=True)
class Scores:
    """`values` (rows,), higher is better, NaN if a row has none; `left_out` counts the rows not read, by reason."""

    values: numpy.ndarray
    left_out: dict[str, int]


def rows_of(shards: Sequence[Path], split: str) -> list[Row]:
    """The rows of the rating shards that are in `split`, in order."""
    return [row for shard in shards for row in read_shard(shard, RATINGS).to_pylist() if row["split"] == split]


def score_metric(index: int, inputs: Sequence[Path], params: ScoringParams) -> Outcome:
    """Shard `index`: the metric `params.metrics[index]` on all test rows of the rating shards `inputs`.

    After the shards, `inputs` has the folder of a trained metric, or the folders and files of a baseline's models. A
    reason why rows are dropped begins with the metric's name and OF.
    """
    name = params.metrics[index]
    rows = rows_of([file for file in inputs if file.match("part-*.parquet")], "test")
    metric = trained(name, inputs[-1], params.max_tokens) if name.startswith(TRAINED) else known_metrics()[name]
    found = attempt(metric, settings_of(metric, params.settled), rows, params.batch_tokens)
    schema = SYSTEM_PREDICTIONS if metric.level is Level.SYSTEM else PREDICTIONS
    rows_in = len(found.rows) + sum(found.left_out.values())
    left_out = {f"{name}{OF}{reason}": count for reason, count in found.left_out.items()}
    return Outcome(table_of(found.rows, schema), rows_in, len(found.rows), left_out)


def trained(name: str, folder: Path, max_tokens: int, precision: str = "auto") -> Metric:
    """The checkpoint in `folder` as a metric of what it reads; pairs are cut to `max_tokens`.

    `precision`: "auto", "float32", "bf16" or "int8" (`pipeline.metric.prediction`).
    """
    outputs, beside = _about(folder)
    what = "" if beside == "reference" else f" reads {BESIDE[beside][1]},"
    return Metric(
        name,
        BESIDE[beside][0] | Reads.CANDIDATE,
        score=partial(_by_checkpoint, folder, max_tokens, precision, BESIDE[beside][0]),
        signature=lambda _: f"checkpoint {name.removeprefix(TRAINED)},{what} pairs cut to {max_tokens} tokens",
        aspects=outputs if len(outputs) > 1 else (),
        apart=False,
    )


def _about(folder: Path) -> tuple[tuple[str, ...], str]:
    """Names of the outputs of the checkpoint in `folder`, and what it reads beside the candidate."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:  # an original BLEURT
        from pipeline.core.models import load_config  # loads torch, which other users of this module do not need

        config = {"id2label": load_config(folder).id2label}
    labels, beside = config.get("id2label", {}), config.get("reads", "reference")
    if beside not in BESIDE:
        raise ModelError(f"{folder}: reads {beside!r} beside the candidate, which is none of {', '.join(BESIDE)}.")
    return tuple(labels[number] for number in sorted(labels, key=int)), beside


def _by_checkpoint(
    folder: Path, max_tokens: int, precision: str, reads: Reads, texts: Texts, settings: None, batch_tokens: int
) -> numpy.ndarray:
    from pipeline.metric.prediction import predict

    if Reads.SOURCE in reads:
        from pipeline.metric.beside import beside_in

        references = [own[0] if own else None for own in texts.references]
        first = beside_in(folder).texts(references, texts.sources)
    else:
        first = texts.reference
    return predict(folder, first, texts.candidates, max_tokens, batch_tokens, precision)


def attempt(metric: Metric, settings: Any, rows: Sequence[Row], batch_tokens: int) -> Predictions:
    """As `predict_rows`; but a baseline whose model cannot be used leaves out all rows, and the reason says why."""
    try:
        return predict_rows(metric, settings, rows, batch_tokens)
    except ModelError as error:
        if metric.name.startswith(TRAINED):
            raise
        return all_left_out(metric, rows, str(error))


def all_left_out(metric: Metric, rows: Sequence[Row], reason: str) -> Predictions:
    """No score, and all rated `rows`, or the systems in them, left out for one reason."""
    if metric.level is Level.SEGMENT:
        return Predictions([], {reason: len(rows)})
    groups = _by_corpus_and_pair(rows).values()
    count = sum(len(_systems([rows[place] for place in places])) for places in groups)
    return Predictions([], {reason: count} if count else {})


def predict_rows(metric: Metric, settings: Any, rows: Sequence[Row], batch_tokens: int) -> Predictions:
    """Scores of the rated `rows`, or of the systems in them, by the metric's level.

    A ModelError if a trained metric gives something that is not a number.
    """
    if metric.level is Level.SYSTEM:
        return _predict_systems(metric, settings, rows, batch_tokens)
    found = score_rows(metric, settings, rows, batch_tokens)
    known = numpy.isfinite(found.values)
    for row, score in zip(rows, found.values, strict=True):
        if metric.name.startswith(TRAINED) and not numpy.isfinite(score):
            raise ModelError(
                f"{metric.name}: gives {score} for the rating {row['rating_id']}; a metric must give a number."
            )
    without = len(rows) - int(known.sum()) - sum(found.left_out.values())
    predictions = [
        {"rating_id": rows[place]["rating_id"], "metric": metric.name, "score": float(found.values[place])}
        for place in numpy.flatnonzero(known).tolist()
    ]
    return Predictions(predictions, found.left_out | ({NO_NUMBER: without} if without else {}))


def score_rows(metric: Metric, settings: Any, rows: Sequence[Row], batch_tokens: int) -> Scores:
    """Scores of the rated `rows` by a metric of the level SEGMENT."""
    scores = numpy.full(len(rows), numpy.nan)
    left_out: Counter[str] = Counter()
    readable: list[list[int]] = []
    for places in _by_corpus_and_pair(rows).values():
        reason = _unreadable(metric, _texts(metric, [rows[place] for place in places]))
        if reason is None:
            readable.append(places)
        else:
            left_out[reason] += len(places)
    calls = readable if metric.apart or not readable else [sorted(itertools.chain.from_iterable(readable))]
    for places in calls:
        mine = [rows[place] for place in places]
        try:
            values = score_segments(metric, settings, _texts(metric, mine), batch_tokens)
        except UnreadableError as error:
            left_out[str(error)] += len(places)
            continue
        scores[places] = values[numpy.arange(len(mine)), _outputs(metric, mine)]
    return Scores(scores, dict(left_out))


def score_segments(metric: Metric, settings: Any, texts: Texts, batch_tokens: int) -> numpy.ndarray:
    """Scores of n segments by a metric of the level SEGMENT, (n, outputs): the highest over a segment's references."""
    numbers: dict[tuple[tuple[str, ...], str | None, str], int] = {}
    segments = []
    for references, source, candidate in zip(texts.references, texts.sources, texts.candidates, strict=True):
        alone = [(text,) for text in references] if Reads.REFERENCE in metric.reads else [references]
        segments.append([numbers.setdefault((one, source, candidate), len(numbers)) for one in alone])
    values = metric.score(Texts(*(tuple(column) for column in zip(*numbers, strict=True))), settings, batch_tokens)
    values = values[:, None] if values.ndim == 1 else values
    return numpy.array([values[mine].max(axis=0) for mine in segments], dtype=numpy.float64)


def reading(metric: Metric, texts: Texts) -> Texts:
    """`texts` without what the metric does not read."""
    count = len(texts.candidates)
    with_references = bool(metric.reads & (Reads.REFERENCE | Reads.REFERENCES))
    return Texts(
        texts.references if with_references else ((),) * count,
        texts.sources if Reads.SOURCE in metric.reads else (None,) * count,
        texts.candidates if Reads.CANDIDATE in metric.reads else ("",) * count,
    )


def _texts(metric: Metric, rows: Sequence[Row]) -> Texts:
    """What `metric` reads of `rows`."""
    columns = zip(
        *(((row["reference"], *row["other_references"]), row["source"], row["candidate"]) for row in rows), strict=True
    )
    return reading(metric, Texts(*columns))


def _unreadable(metric: Metric, texts: Texts) -> str | None:
    """Why the metric cannot read `texts`; None if it can."""
    if Reads.SOURCE in metric.reads and None in texts.sources:
        return SOURCELESS
    return None if metric.can_read(texts) else UNREADABLE


def _by_corpus_and_pair(rows: Sequence[Row]) -> dict[tuple[str, str], list[int]]:
    """(corpus, language pair) -> places of its rows, in order of appearance."""
    places: dict[tuple[str, str], list[int]] = {}
    for place, row in enumerate(rows):
        places.setdefault((row["corpus"], row["language_pair"] or NO_PAIR), []).append(place)
    return places


def _outputs(metric: Metric, rows: Sequence[Row]) -> list[int]:
    """Which output of the metric judges each row's aspect; a metric with one output judges them all."""
    if not metric.aspects:
        return [0] * len(rows)
    unknown = sorted({row["aspect"] for row in rows} - set(metric.aspects))
    if unknown:
        judged = ", ".join(sorted(metric.aspects))
        raise ModelError(f"{metric.name}: judges {judged}, but a test row is rated for {unknown[0]}.")
    return [metric.aspects.index(row["aspect"]) for row in rows]


def _predict_systems(metric: Metric, settings: Any, rows: Sequence[Row], batch_tokens: int) -> Predictions:
    found: list[Row] = []
    left_out: Counter[str] = Counter()
    for (corpus, pair), places in _by_corpus_and_pair(rows).items():
        systems = _systems([rows[place] for place in places])
        reasons = [_unreadable(metric, _texts(metric, mine)) for mine in systems.values()]
        reason = next(filter(None, reasons), None)
        if reason is not None:
            left_out[reason] += len(systems)
            continue
        for system, mine in systems.items():
            score = float(metric.score(_texts(metric, mine), settings, batch_tokens))
            if numpy.isfinite(score):
                names = {"corpus": corpus, "language_pair": pair, "system": system}
                found.append({**names, "metric": metric.name, "score": score})
            else:
                left_out[NO_NUMBER] += 1
    return Predictions(found, dict(left_out))


def systems_of(row: Row) -> list[str]:
    """The systems that gave the row's output.

    >>> systems_of({"system": "a+b"}), systems_of({"system": None})
    (['a', 'b'], [])
    """
    return row["system"].split("+") if row["system"] else []


def _systems(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Name of a system -> its rows, sorted by name; an output that was judged several times is one row."""
    found: dict[str, dict[tuple[Any, ...], Row]] = {}
    for system, row in _named(rows):
        output = row["segment"], row["reference"], row["source"], row["candidate"]
        found.setdefault(system, {}).setdefault(output, row)
    return {system: list(found[system].values()) for system in sorted(found)}


def _named(rows: Sequence[Row]) -> Iterator[tuple[str, Row]]:
    return ((system, row) for row in rows for system in systems_of(row))
