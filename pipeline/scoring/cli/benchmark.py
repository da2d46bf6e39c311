"""`bleurt benchmark`: measure how well checkpoints and baselines agree with people, on ratings of your own.

  bleurt benchmark --ratings my.csv --scale 100
  bleurt benchmark --ratings my.csv -c models/finetune/all models/finetune/none --baselines bertscore chrf++
  bleurt benchmark --ratings data/collect

The pipeline's own evaluation: Kendall, Pearson, Spearman and DARR by language pair and on average, with bootstrap
intervals, beside the baselines, and paired tests against the best of them, corrected by Holm for their number. Tables
of their own show agreement on segments with ties, clusters of significance, and, if the ratings name systems, agreement
on systems (docs/pipeline.md explains each). A baseline that scores whole systems, such as bleu, joins the latter. One
that cannot score (no model, no server, no sources) is left out, and standard error says why. --entailment measures each
checkpoint also with the scores of contradictions lowered. --published takes scores
of others and --export writes ours, as files of WMT's metrics task; scores that came with the ratings stand beside them.
Ratings are a CSV, TSV, JSONL or Parquet file (or a folder of these) with the columns reference, candidate and score, as
the layout `own` reads them, or a folder that the stage collect wrote, whose rows of --split are taken. Texts are read
as `collect` reads them (character references undone unless --character_references kept, rows with more words than
`collect.max_words` of params.yaml left out), without the clean-up of `bleurt score`, so that the numbers are those of
the pipeline. In a folder that collect wrote, texts stay as they are.
"""

import argparse
import dataclasses
import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pipeline.core.errors import ParamsError
from pipeline.core.params import from_mapping, load_key
from pipeline.core.records import (
    AVERAGE,
    HEADLINE,
    PREDICTIONS,
    STATISTICS,
    SYSTEM_LEVEL,
    SYSTEM_PREDICTIONS,
    TRAINED,
    WITH_TIES,
    headline_statistics,
)
from pipeline.evaluate.benchmark import Findings, Settings, as_records, benchmark
from pipeline.evaluate.evaluation import CAME_ALONG, published_scores
from pipeline.evaluate.metrics import Level, Metric, Settled, known_metrics, settings_of
from pipeline.evaluate.metrics_task import Published, scores_of_others, write_scores
from pipeline.evaluate.predictions import all_left_out, attempt
from pipeline.scoring import output
from pipeline.scoring.contenders import (
    BATCH_TOKENS,
    add_encoder_arguments,
    checkpoints,
    metric_name,
    params_file,
    settled_for,
)
from pipeline.scoring.inputs import add_character_references, add_entailment, add_precision, at_least_one
from pipeline.scoring.output import Format
from pipeline.scoring.ratings import AS_COLLECTED, Row, is_collected, read_benchmark, read_collected
from pipeline.scoring.unusual_texts import CharacterReferences


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its flags."""
    add = parser.add_argument
    add("--ratings", type=Path, required=True, metavar="PATH", help="a file, or a folder")
    add("--scale", type=float, metavar="N", help="the highest rating; without it ratings are standardised ones")
    add("--split", default="test", help="of a folder that collect wrote: test (default), validation, train")
    add("-c", "--checkpoint", "--model", "-bleurt_checkpoint", "--bleurt_checkpoint", nargs="+", action="extend",
        metavar="NAME",
        help="folders, or names as in params.yaml; the bundled metric by default")  # fmt: skip
    add("--baselines", nargs="*", action="extend", type=metric_name, metavar="NAME",
        help="metrics of pipeline/evaluate/metrics (default: evaluate.baselines of params.yaml)")  # fmt: skip
    add_encoder_arguments(parser)
    add_precision(add)
    add_entailment(add)
    add_character_references(add)
    add("--published", nargs="+", action="extend", type=Path, default=[], metavar="FILE",
        help="scores of others, files of WMT's metrics task (METRIC LP TESTSET REF SYSTEM SEGMENT SCORE)")  # fmt: skip
    add("--export", type=Path, metavar="FOLDER", help="write our scores there as files of WMT's metrics task")
    add("--max_tokens", type=at_least_one, metavar="N", help="tokens of a pair that are read (default 128)")
    add("--resamples", type=at_least_one, default=1000, metavar="N", help="of the bootstrap (default 1000)")
    add("--permutations", type=at_least_one, default=1000, metavar="N", help="of the paired tests (default 1000)")
    add("--confidence", type=float, default=0.95, metavar="P", help="of the intervals (default 0.95)")
    add("--darr_gap", type=float, default=25.0, metavar="N", help="least difference that counts, of 100 (default 25)")
    add("--seed", type=int, default=1, metavar="N", help="of resamples and permutations (default 1)")
    output.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read the ratings, score them with everything that is named, measure, print."""
    import pandas

    if arguments.scale is not None and not 0 < arguments.scale < math.inf:
        raise ParamsError(f"--scale: must be a positive number, not {arguments.scale}.")
    values = {field.name: getattr(arguments, field.name) for field in dataclasses.fields(Settings)}
    settings = from_mapping(values, Settings, "benchmark")
    handled = CharacterReferences(arguments.character_references)
    rows = read_benchmark(arguments.ratings, arguments.scale, arguments.split, handled)
    checkpoint_names = arguments.checkpoint or ["bundled:metric"]
    collected = is_collected(arguments.ratings)
    said = AS_COLLECTED if collected else handled
    trained = checkpoints(checkpoint_names, arguments.max_tokens, rows, said, arguments.entailment, arguments.precision)
    metrics = [*trained, *baselines(arguments.baselines)]
    validation = read_collected(arguments.ratings, ["validation"]) if collected else []
    settled = settled_for(metrics, arguments, validation)
    scores, system_scores, seconds = score_all(metrics, settled, rows)
    corpora = sorted({row["corpus"] for row in rows})
    files = [Published(str(file), corpus) for file in arguments.published for corpus in corpora]
    came_along = published_scores(rows)
    others = scores_of_others(files, rows, set(came_along["metric"]))
    for one in others.left_out:
        print(f"warning: {one['metric']}: {one['rows']} ratings are left out: {one['reason']}", file=sys.stderr)
    scores = pandas.concat([scores, came_along, others.segments])
    system_scores = pandas.concat([system_scores, others.systems])
    findings = benchmark(rows, scores, system_scores, settings)
    usable = [metric for metric in metrics if metric.name not in settled.failed]
    signatures = {metric.name: metric.signature(settings_of(metric, settled.settings)) for metric in usable}
    signatures |= dict.fromkeys(came_along["metric"].unique(), CAME_ALONG) | others.signatures
    if arguments.export is not None:
        export(arguments.export, rows, scores, system_scores)
    if arguments.format is Format.JSON:
        print(json.dumps(as_json(findings, values, signatures, seconds), ensure_ascii=False, indent=1))
    else:
        print(render(findings, settings, signatures, seconds, arguments.format, arguments.width))
    return 0


def score_all(metrics: Sequence[Metric], settled: Settled, rows: Sequence[Row]) -> tuple[Any, Any, dict[str, float]]:
    """Scores of the rows, scores of the systems, and by metric the seconds of 1,000 rows, its model's start included.

    Standard error says what a metric leaves out and why; one that leaves rows out has no time.
    """
    import pandas
    from tqdm import tqdm

    found: dict[Level, list[Row]] = {level: [] for level in Level}
    seconds = {}
    for metric in tqdm(metrics, unit="metric", disable=not sys.stderr.isatty()):
        failed, started = settled.failed.get(metric.name), time.perf_counter()
        if failed is None:
            predictions = attempt(metric, settings_of(metric, settled.settings), rows, BATCH_TOKENS)
        else:
            predictions = all_left_out(metric, rows, failed)
        found[metric.level] += predictions.rows
        if not predictions.left_out:
            seconds[metric.name] = 1000 * (time.perf_counter() - started) / len(rows)
        for reason, count in predictions.left_out.items():
            unit = "systems" if metric.level is Level.SYSTEM else "ratings"
            print(f"warning: {metric.name}: {count} {unit} are left out: {reason}", file=sys.stderr)
    return (
        pandas.DataFrame(found[Level.SEGMENT], columns=PREDICTIONS.names),
        pandas.DataFrame(found[Level.SYSTEM], columns=SYSTEM_PREDICTIONS.names),
        seconds,
    )


def export(folder: Path, rows: Sequence[Row], scores: Any, system_scores: Any) -> None:
    """Write our scores as files of WMT's metrics task; says on standard error what was written and what was not."""
    files, without = write_scores(folder, rows, scores, system_scores)
    print(f"{folder}: {len(files)} files of scores", file=sys.stderr)
    if without:
        problem = "have no system, or no number of a segment, and are not in these files"
        print(f"warning: {without} ratings {problem}", file=sys.stderr)


def baselines(wanted: Sequence[str] | None) -> list[Metric]:
    """The metrics that are `wanted`, each once; those of params.yaml if `wanted` is None."""
    known = known_metrics()
    names = load_key(params_file(), "evaluate")["baselines"] if wanted is None else wanted
    return [known[name] for name in dict.fromkeys(names)]


def as_json(found: Findings, settings: Row, signatures: dict[str, str], seconds: dict[str, float]) -> Row:
    """Everything that was found; null if undefined."""
    return {
        "agreement": as_records(found.agreement),
        "significance": as_records(found.differences),
        "clusters": as_records(found.clusters),
        "left_out": list(_left_out(found)),
        "seconds_of_1000_rows": {metric: round(one, 2) for metric, one in seconds.items()},
        "settings": settings,
        "signatures": signatures,
    }


def _left_out(found: Findings) -> Iterator[str]:
    for one in as_records(found.left_out):
        yield f"{one['corpus']} {one['aspect']} {one['language_pair']} ({one['reason']})"
    for one in as_records(found.systems_left_out):
        yield f"{one['corpus']} {one['aspect']} {one['language_pair']}, systems ({one['reason']})"


def render(
    found: Findings,
    settings: Settings,
    signatures: dict[str, str],
    seconds: dict[str, float],
    format: Format,
    width: int | None,
) -> str:
    """The findings as tables, all numbers times 100 except p-values and `seconds`, those of 1,000 rows by metric."""
    mark = "% " if format is Format.LATEX else ""
    blocks = [
        f"{mark}{title}\n\n{output.table(as_records(table), format, width)}"
        for title, table in _tables(found, f"{100 * settings.confidence:g}% interval")
        if len(table)
    ]
    notes = [f"left out of the averages: {text}" for text in _left_out(found)]
    times = {metric: f", {one:.1f} s for 1,000 rows" for metric, one in seconds.items()}
    notes += [f"{metric}: {text}{times.get(metric, '')}" for metric, text in signatures.items()]
    return "\n\n".join([*blocks, "\n".join(f"{mark}{note}" for note in notes)])


def _tables(found: Findings, confidence: str) -> Iterator[tuple[str, Any]]:
    """Title and table of every corpus and aspect: the headline's averages, each by language pair, then the details."""
    for (corpus, aspect), cells in found.agreement.groupby(["corpus", "aspect"], sort=False):
        averages = cells[cells["language_pair"] == AVERAGE]
        order = _order(averages)
        rated = averages[(averages["metric"] == order[0]) & (averages["statistic"] == "kendall")]["count"].sum()
        title = f"{corpus}, {aspect}: agreement with people x 100, {rated:,} rated segments ({confidence})"
        named = averages.assign(text=[_cell(row, interval=True) for row in averages.to_dict("records")])
        present = named[["metric", "statistic"]].itertuples(index=False)
        first = {name: STATISTICS[name] for name in headline_statistics(present)}
        yield title, _wide(named, order, "statistic", first)
        by_pair = cells[cells["language_pair"] != AVERAGE]
        by_pair = by_pair.assign(text=[_cell(row, interval=False) for row in by_pair.to_dict("records")])
        pairs = {pair: pair for pair in sorted(by_pair["language_pair"].unique())}
        for statistic, heading in first.items() if len(pairs) > 1 else ():
            of_one = by_pair[by_pair["statistic"] == statistic]
            if len(of_one):
                yield f"{heading} x 100 by language pair", _wide(of_one, order, "language_pair", pairs)
        mine = found.differences
        yield (
            "differences of the average, paired permutation test",
            _differences(mine[(mine["corpus"] == corpus) & (mine["aspect"] == aspect)]),
        )
        yield "agreement on systems x 100, no interval", _wide(named, order, "statistic", SYSTEM_LEVEL)
        yield (
            "segments with ties x 100 (acc23*: best tie threshold), no interval",
            _wide(named, order, "statistic", WITH_TIES),
        )
        ranked = found.clusters
        yield (
            "clusters of metrics, best first (PERM-BOTH)",
            _clusters(ranked[(ranked["corpus"] == corpus) & (ranked["aspect"] == aspect)], order),
        )


def _order(averages: Any) -> list[str]:
    """Metrics as they stand in tables: trained ones first, then by falling average Kendall, undefined ones last."""
    kendall = averages[averages["statistic"] == "kendall"].set_index("metric")["value"]
    values = {metric: kendall.get(metric, math.nan) for metric in averages["metric"].unique()}

    def place(metric: str) -> tuple[bool, bool, float, str]:
        value = values[metric]
        return not metric.startswith(TRAINED), math.isnan(value), 0.0 if math.isnan(value) else -value, metric

    return sorted(values, key=place)


def _cell(row: Row, *, interval: bool) -> str:
    """A value of the agreement, perhaps with its interval.

    >>> _cell({"value": 0.2341, "low": 0.1, "high": 0.3}, interval=True)
    '23.4 (10.0 – 30.0)'
    """
    if math.isnan(row["value"]):
        return "undefined"
    bounds = "" if math.isnan(row["low"]) or not interval else f" ({100 * row['low']:.1f} – {100 * row['high']:.1f})"
    return f"{100 * row['value']:.1f}{bounds}"


def _wide(cells: Any, order: list[str], column: str, headings: dict[str, str]) -> Any:
    """A row for each metric with values, a column for each of `headings` with values; a missing value is empty."""
    wide = cells[cells[column].isin(headings)].pivot(index="metric", columns=column, values="text")
    present = {name: heading for name, heading in headings.items() if name in wide}
    ordered = [metric for metric in order if metric in wide.index]
    return wide.loc[ordered, list(present)].rename(columns=present).fillna("").reset_index()


def _clusters(ranked: Any, order: list[str]) -> Any:
    """A row for each metric: the number of its cluster by each correlation."""
    return _wide(ranked.assign(text=ranked["cluster"].astype(str)), order, "statistic", HEADLINE)


def _differences(found: Any) -> Any:
    columns = {"metric": "metric", "against": "against", "difference": "Kendall x 100", "low": "low", "high": "high"}
    columns |= {"p_value": "p", "p_value_holm": "p holm"}
    scaled = found.assign(**{name: 100 * found[name] for name in ("difference", "low", "high")})
    return scaled[list(columns)].rename(columns=columns)
