"""The stage evaluate: one shard of predictions for each metric, and the benchmark made from them.

A metric's predictions are the unit of work and of resume. Metrics that score whole systems have a folder of their own.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas
from pydantic import model_validator

from pipeline.core import modules
from pipeline.core.errors import InputError
from pipeline.core.models import load_config, load_tokenizer
from pipeline.core.modules import code_fingerprint
from pipeline.core.params import AtLeastOne, params
from pipeline.core.records import AGREEMENT, CLUSTERS, PREDICTIONS, PUBLISHED, RATINGS, SYSTEM_PREDICTIONS, TRAINED
from pipeline.core.shards import list_shards, read_rows, shard_name, table_of, write_shard
from pipeline.core.work import Job, run_job, write_json
from pipeline.evaluate import metrics as baselines
from pipeline.evaluate.benchmark import Findings, Settings, as_records, benchmark
from pipeline.evaluate.metrics import (
    Level,
    Metric,
    Row,
    Settled,
    check_names,
    known_metrics,
    model_files,
    settings_of,
    settle,
)
from pipeline.evaluate.metrics_task import Published, scores_of_others
from pipeline.evaluate.predictions import OF, ScoringParams, all_left_out, rows_of, score_metric, trained
from pipeline.metric.prediction import readable_tokens  # importing it makes our architectures known to load_config

CAME_ALONG = "as published with the ratings"


@params
class EvaluateParams(Settings):
    """Section `evaluate` of params.yaml, without the sections of single metrics.

    `baselines`: names of the metrics to compute beside the trained ones. `published`: files of others' scores.
    `max_tokens`: a pair is cut to this length for trained metrics. `batch_tokens`: tokens in a batch, padding included.
    The rest: see `Settings`.
    """

    baselines: tuple[str, ...]
    published: tuple[Published, ...]
    max_tokens: AtLeastOne
    batch_tokens: AtLeastOne

    @model_validator(mode="after")
    def _known(self) -> "EvaluateParams":
        check_names(self.baselines)
        return self


def evaluate(
    params: EvaluateParams, sections: dict[str, Any], variants: Sequence[str], ratings: Path, metrics: Path, out: Path
) -> None:
    """Everything that the stage writes to `out`.

    `sections` are the params of the baselines' sections by their names. `metrics` holds a checkpoint folder for each of
    the `variants`. An InputError if a checkpoint is missing or no row is a test row.
    """
    counts = _count_splits(ratings)
    if not counts["rows_out"]:
        raise InputError("no row has the split test, so there is nothing to evaluate", file=ratings)
    contenders = _contenders(params, variants, metrics)
    settled = settle(contenders.values(), sections, rows_of(list_shards(ratings), "validation"), params.batch_tokens)
    rows = rows_of(list_shards(ratings), "test")
    left_out = _failed(contenders, settled, rows)
    usable = {name: metric for name, metric in contenders.items() if name not in settled.failed}
    names = {level: [name for name, metric in usable.items() if metric.level is level] for level in Level}
    job = _job(params, names[Level.SEGMENT], settled.settings, ratings, metrics)
    scores = _predicted(job, out / "predictions", PREDICTIONS, left_out)
    system_scores = pandas.DataFrame(columns=SYSTEM_PREDICTIONS.names)
    if names[Level.SYSTEM]:
        job = _job(params, names[Level.SYSTEM], settled.settings, ratings, metrics)
        system_scores = _predicted(job, out / "system_predictions", SYSTEM_PREDICTIONS, left_out)
    scores = pandas.concat([scores, published_scores(rows)])
    others = scores_of_others(params.published, rows, set(scores["metric"]))
    scores, system_scores = pandas.concat([scores, others.segments]), pandas.concat([system_scores, others.systems])
    left_out += others.left_out
    found = benchmark(rows, scores, system_scores, params)
    write_shard(out / "agreement" / shard_name(0), table_of(found.agreement.to_dict("records"), AGREEMENT))
    write_shard(out / "clusters" / shard_name(0), table_of(found.clusters.to_dict("records"), CLUSTERS))
    write_json(out / "significance.json", as_records(found.differences))
    signatures = {name: metric.signature(settings_of(metric, settled.settings)) for name, metric in usable.items()}
    came_along = [name for name in scores["metric"].unique() if name.startswith(PUBLISHED)]
    came_along += [name for name in system_scores["metric"].unique() if name.startswith(PUBLISHED)]
    signatures |= dict.fromkeys(came_along, CAME_ALONG) | others.signatures
    write_json(out / "method.json", _method(params, found, signatures) | {"not_scored": left_out})
    write_json(out / "counts.json", counts)


def _count_splits(ratings: Path) -> dict[str, object]:
    splits = Counter(row["split"] for row in read_rows(ratings, RATINGS))
    test = splits.pop("test", 0)
    dropped = {f"{split} split": count for split, count in sorted(splits.items())}
    return {"rows_in": test + sum(splits.values()), "rows_out": test, "dropped": dropped}


def _contenders(params: EvaluateParams, variants: Sequence[str], metrics: Path) -> dict[str, Metric]:
    """The trained metrics, then the baselines, by their names."""
    found = {}
    for variant in variants:
        folder = metrics / variant
        if not folder.is_dir():
            raise InputError(f"no trained metric {variant} in this folder (run finetune for it)", file=metrics)
        readable_tokens(load_config(folder), load_tokenizer(folder), params.max_tokens, "evaluate.max_tokens")
        found[f"{TRAINED}{variant}"] = trained(f"{TRAINED}{variant}", folder, params.max_tokens)
    known = known_metrics()
    return found | {name: known[name] for name in params.baselines}


def _failed(contenders: dict[str, Metric], settled: Settled, rows: Sequence[Row]) -> list[Row]:
    """What metrics that cannot score leave out: metric, reason and rows (or systems)."""
    return [
        {"metric": name, "reason": reason, "rows": sum(all_left_out(contenders[name], rows, reason).left_out.values())}
        for name, reason in settled.failed.items()
    ]


def _job(params: EvaluateParams, names: Sequence[str], settled: dict[str, Any], ratings: Path, metrics: Path) -> Job:
    """One shard for each metric; its inputs are the rating shards and the folders of the models that it uses."""
    shards, known = list_shards(ratings), known_metrics()
    inputs = []
    for name in names:
        if name.startswith(TRAINED):
            folders = [metrics / name.removeprefix(TRAINED)]
        else:
            section = known[name].section
            folders = model_files(section.models(settled[section.name])) if section else []
        inputs.append([*shards, *folders])
    scoring = ScoringParams(tuple(names), settled, params.max_tokens, params.batch_tokens)
    package = baselines.__name__
    code = "".join(code_fingerprint(f"{package}.{name}") for name in modules.names(package))
    return Job("pipeline.evaluate.evaluation", score_metric, inputs, scoring, extra=code)


def _predicted(job: Job, out: Path, schema: Any, left_out: list[Row]) -> pandas.DataFrame:
    """The scores of all metrics; what a metric left out is added to `left_out`."""
    for text, count in run_job(job, out)["dropped"].items():
        name, _, reason = text.partition(OF)
        left_out.append({"metric": name, "reason": reason, "rows": count})
    return pandas.DataFrame(read_rows(out, schema), columns=schema.names)


def published_scores(rows: Sequence[Row]) -> pandas.DataFrame:
    """Scores that were published with the ratings, as PREDICTIONS: those of "ter" are named "published/ter"."""
    found = [
        {"rating_id": row["rating_id"], "metric": f"{PUBLISHED}{name}", "score": score}
        for row in rows
        for name, score in row["published"] or ()
    ]
    return pandas.DataFrame(found, columns=PREDICTIONS.names)


def _method(params: EvaluateParams, found: Findings, signatures: dict[str, str]) -> dict[str, object]:
    """What a reader needs to repeat the numbers.

    The settings, each metric's signature, the language pairs that the averages leave out, each with the reason, the WMT
    campaign's year of each corpus (null if there is none) and the corpora with people's scores of whole systems.
    """
    method = {
        "settings": {name: getattr(params, name) for name in Settings.__dataclass_fields__},
        "signatures": signatures,
        "left_out": as_records(found.left_out),
        "years": found.years,
        "system_ratings": found.system_ratings,
    }
    of_systems = as_records(found.systems_left_out)
    return method | ({"systems_left_out": of_systems} if of_systems else {})
