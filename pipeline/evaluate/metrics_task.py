"""Scores in the files of WMT's metrics task: those of others, read to stand beside ours, and ours, written.

A line of a file for segments is `METRIC LP TESTSET REF SYSTEM SEGMENT SCORE`, of a file for systems the same without
SEGMENT; tabs separate the fields, segments count from 1, higher is better. A file may be gzip-compressed and hold
several metrics. Scores are matched with rated rows by language pair, system and segment, as the ratings name them; for
an output that several systems share ("a+b") those of any of them count. TESTSET is not compared: whoever names a file
says of which corpus it is. A metric is called "published/METRIC", with "/REF" behind it if the file has scores by
several references.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas

from pipeline.core.errors import InputError
from pipeline.core.params import params
from pipeline.core.records import NO_PAIR, PREDICTIONS, PUBLISHED, SYSTEM_PREDICTIONS
from pipeline.core.shards import replacing
from pipeline.evaluate.metrics import Row
from pipeline.evaluate.predictions import systems_of
from pipeline.files.lines import number, stream_lines, whole_number

FIELDS = {"segments": 7, "systems": 6}
REFERENCE = "ref"
"""REF of what we write: our ratings do not name their references."""

NO_SCORE = "the file has no score of the row"


@params
class Published:
    """A file of scores, and the corpus of rated rows to which they belong."""

    path: str
    corpus: str


@dataclass(frozen=True)
class Score:
    """A line of a file; `segment` is None in a file for systems."""

    metric: str
    language_pair: str
    test_set: str
    reference: str
    system: str
    segment: str | None
    score: float


@dataclass(frozen=True)
class Others:
    """`segments` has the columns of PREDICTIONS, `systems` those of SYSTEM_PREDICTIONS.

    `left_out`: metric, reason and rows of what has no score. `signatures`: metric -> where its scores come from.
    """

    segments: pandas.DataFrame
    systems: pandas.DataFrame
    left_out: list[Row]
    signatures: dict[str, str]


def read_scores(file: Path) -> list[Score]:
    """The lines of `file`, all for segments or all for systems; an InputError names a line that is neither."""
    found: list[Score] = []
    known: set[tuple[str | None, ...]] = set()
    for line, text in enumerate(stream_lines(file), start=1):
        if not text.strip():
            continue
        fields = [field.strip() for field in text.split("\t")]
        if len(fields) not in FIELDS.values():
            raise InputError(f"has {len(fields)} fields between tabs, must have 7 or 6", file=file, line=line)
        segment = str(whole_number(fields[5], "SEGMENT", file, line)) if len(fields) == FIELDS["segments"] else None
        if found and (segment is None) != (found[0].segment is None):
            raise InputError("is for segments where others are for systems, or the reverse", file=file, line=line)
        metric, pair, test_set, reference, system = fields[:5]
        score = number(fields[-1], "SCORE", file, line)
        made = Score(metric, pair, test_set, reference, system, segment, score)
        key = (*fields[:5], segment)
        if key in known:
            raise InputError("scores a second time what an earlier line scores", file=file, line=line)
        known.add(key)
        found.append(made)
    if not found:
        raise InputError("holds no score", file=file)
    return found


def scores_of_others(files: Sequence[Published], rows: Sequence[Row], taken: set[str]) -> Others:
    """The scores of the rated `rows`, and of the systems in them, that stand in `files`.

    `taken`: names of metrics that have scores already; an InputError if a file has another of that name.
    """
    segments: list[Row] = []
    systems: list[Row] = []
    left_out: list[Row] = []
    signatures: dict[str, str] = {}
    for given in files:
        file = Path(given.path)
        mine = [row for row in rows if row["corpus"] == given.corpus]
        for metric, scores in _by_metric(read_scores(file)).items():
            if metric in taken:
                raise InputError("scores of this metric were published with the ratings", file=file, value=metric)
            values = {(one.language_pair, one.system, one.segment): one.score for one in scores}
            if scores[0].segment is None:
                made = list(_of_systems(metric, given.corpus, mine, values))
                systems += made
            else:
                made = list(_of_rows(metric, mine, values))
                segments += made
                if len(made) < len(mine):
                    left_out.append({"metric": metric, "reason": NO_SCORE, "rows": len(mine) - len(made)})
            signatures[metric] = f"as published in {file.name}"
    segment_table = pandas.DataFrame(segments, columns=PREDICTIONS.names)
    system_table = pandas.DataFrame(systems, columns=SYSTEM_PREDICTIONS.names)
    for table, key in ((segment_table, ["rating_id", "metric"]), (system_table, SYSTEM_PREDICTIONS.names[:4])):
        twice = table[table.duplicated(key)]
        if len(twice):
            names = ", ".join(given.path for given in files)
            raise InputError("two of these files score the same", file=names, value=twice["metric"].iloc[0])
    return Others(segment_table, system_table, left_out, signatures)


def _by_metric(scores: Sequence[Score]) -> dict[str, list[Score]]:
    references: dict[str, set[str]] = {}
    for one in scores:
        references.setdefault(one.metric, set()).add(one.reference)
    found: dict[str, list[Score]] = {}
    for one in scores:
        several = len(references[one.metric]) > 1
        name = f"{PUBLISHED}{one.metric}{f'/{one.reference}' if several else ''}"
        found.setdefault(name, []).append(one)
    return found


Values = dict[tuple[str, str, str | None], float]
"""(language pair, system, segment) -> score."""


def _of_rows(metric: str, rows: Sequence[Row], values: Values) -> Iterator[Row]:
    for row in rows:
        keys = ((row["language_pair"] or NO_PAIR, system, row["segment"]) for system in systems_of(row))
        score = next((values[key] for key in keys if key in values), None)
        if score is not None:
            yield {"rating_id": row["rating_id"], "metric": metric, "score": score}


def _of_systems(metric: str, corpus: str, rows: Sequence[Row], values: Values) -> Iterator[Row]:
    rated = {(row["language_pair"] or NO_PAIR, system) for row in rows for system in systems_of(row)}
    for pair, system in sorted(rated):
        if (pair, system, None) in values:
            names = {"corpus": corpus, "language_pair": pair, "system": system}
            yield {**names, "metric": metric, "score": values[pair, system, None]}


def write_scores(
    folder: Path, rows: Sequence[Row], scores: pandas.DataFrame, system_scores: pandas.DataFrame
) -> tuple[list[Path], int]:
    """Write our metrics, each to METRIC.seg.score and METRIC.sys.score in `folder`; "/" in a name becomes "-".

    `scores` and `system_scores` have the columns of PREDICTIONS and SYSTEM_PREDICTIONS. A metric of segments gives a
    system the mean over its segments. A segment that was judged several times, or for several aspects, has its first
    score. Returns the files, and how many of the `rows` have no system or no number of a segment, which such files
    need; these are not written.
    """
    named = [row for row in rows if row["system"] and (row["segment"] or "").isdigit()]
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for metric, mine in _ours(scores):
        lines = _segment_lines(metric, named, dict(zip(mine["rating_id"], mine["score"], strict=True)))
        files.append(_write(folder / f"{metric.replace('/', '-')}.seg.score", lines))
        files.append(_write(folder / f"{metric.replace('/', '-')}.sys.score", _means(lines)))
    for metric, mine in _ours(system_scores):
        systems: Lines = {
            (metric, one["language_pair"], one["corpus"], REFERENCE, one["system"]): one["score"]
            for one in mine.to_dict("records")
        }
        files.append(_write(folder / f"{metric.replace('/', '-')}.sys.score", systems))
    return files, len(rows) - len(named)


Lines = dict[tuple[str, ...], float]
"""The fields before SCORE -> the score."""


def _ours(scores: pandas.DataFrame) -> Iterator[tuple[str, pandas.DataFrame]]:
    for metric, mine in scores.groupby("metric", sort=False):
        if not str(metric).startswith(PUBLISHED):
            yield str(metric), mine


def _segment_lines(metric: str, rows: Sequence[Row], values: dict[str, float]) -> Lines:
    found: Lines = {}
    for row in rows:
        for system in systems_of(row):
            if row["rating_id"] in values:
                head = (metric, row["language_pair"] or NO_PAIR, row["corpus"], REFERENCE, system)
                found.setdefault((*head, row["segment"]), values[row["rating_id"]])
    return found


def _means(lines: Lines) -> Lines:
    """The mean over the segments of each system."""
    by_system: dict[tuple[str, ...], list[float]] = {}
    for (*head, _), score in lines.items():
        by_system.setdefault(tuple(head), []).append(score)
    return {head: sum(found) / len(found) for head, found in by_system.items()}


def _write(file: Path, lines: Lines) -> Path:
    with replacing(file) as temporary:
        text = "".join("\t".join((*fields, repr(float(score)))) + "\n" for fields, score in lines.items())
        temporary.write_text(text, encoding="utf-8")
    return file
