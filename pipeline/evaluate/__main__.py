"""Evaluate: how well do the trained metrics and the baselines agree with people on the test rows?

    python -m pipeline.evaluate --ratings data/collect --metrics models/finetune --out data/evaluate

Writes OUT/predictions (one shard a metric), OUT/agreement, OUT/significance.json, OUT/method.json and
OUT/counts.json. A metric's predictions are the unit of work and of resume.
"""

import argparse
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from pipeline.core.errors import InputError, ParamsError
from pipeline.core.models import check_max_tokens, load_config, load_tokenizer, locate
from pipeline.core.params import load_key, load_params
from pipeline.core.records import AGREEMENT, PREDICTIONS, RATINGS
from pipeline.core.runtime import run_main
from pipeline.core.shards import list_shards, read_rows, shard_name, table_of, write_shard
from pipeline.core.work import Job, run_job, write_json
from pipeline.evaluate.agreement import Group, agreement_rows, group_rows, left_out, measure
from pipeline.evaluate.differences import compare
from pipeline.evaluate.layer import best_layer
from pipeline.evaluate.metrics.counts import encoded_signature, signature
from pipeline.evaluate.names import ENCODED, PUBLISHED, TRAINED, Baseline
from pipeline.evaluate.predictions import ScoringParams, read_test_rows, score_metric

CAME_ALONG = "as published with the ratings"


@dataclass(frozen=True)
class EvaluateParams:
    """Section `evaluate` of params.yaml.

    `baselines`: which to compute. `bertscore_model`, `bertscore_layer`: their encoder (see core/locate.py) and the
    layer whose vectors are matched, None for the best on the validation ratings. `max_tokens`: a pair is cut to this
    length for trained metrics. `batch_tokens`: tokens in a batch, padding included. `resamples`, `confidence` (0-1):
    bootstrap. `permutations`: of the paired test. `darr_gap`: points of 100 by which two translations must differ for
    people to have told them apart.
    """

    baselines: tuple[Baseline, ...]
    bertscore_model: str
    bertscore_layer: int | None
    max_tokens: int
    batch_tokens: int
    resamples: int
    confidence: float
    permutations: int
    darr_gap: float
    seed: int

    def __post_init__(self) -> None:
        for name in ("max_tokens", "batch_tokens", "resamples", "permutations"):
            if getattr(self, name) < 1:
                raise ParamsError(f"evaluate.{name}: must be at least 1, not {getattr(self, name)}.")
        if not 0 < self.confidence < 1:
            raise ParamsError(f"evaluate.confidence: must lie between 0 and 1, not {self.confidence}.")
        if len(set(self.baselines)) < len(self.baselines):
            raise ParamsError("evaluate.baselines: names a baseline twice.")


def main() -> None:
    """Parse paths, load `evaluate` and `variants`, score, measure, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--params", type=Path, default=Path("params.yaml"))
    for name in ("ratings", "metrics", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    arguments = parser.parse_args()
    params = load_params(arguments.params, "evaluate", EvaluateParams)
    evaluate(params, load_key(arguments.params, "variants"), arguments.ratings, arguments.metrics, arguments.out)


def evaluate(params: EvaluateParams, variants: list[str], ratings: Path, metrics: Path, out: Path) -> None:
    """Everything that the stage writes to `out`; `metrics` holds one checkpoint folder a variant."""
    counts = _count_splits(ratings)
    if not counts["rows_out"]:
        raise InputError("no row has the split test, so there is nothing to evaluate", file=ratings)
    job = _job(params, variants, ratings, metrics, _layer(params, ratings))
    _clear(out)
    run_job(job, out / "predictions")
    scores: dict[str, dict[str, float]] = {name: {} for name in job.params.metrics}
    for row in read_rows(out / "predictions", PREDICTIONS):
        scores[row["metric"]][row["rating_id"]] = row["score"]
    rows = read_test_rows(list_shards(ratings))
    for row in rows:
        for name, score in row["published"] or ():
            scores.setdefault(f"{PUBLISHED}{name}", {})[row["rating_id"]] = score
    groups = group_rows(rows, scores)
    measured = measure(groups, params.resamples, params.darr_gap, params.seed)
    agreement = agreement_rows(measured, params.confidence)
    write_shard(out / "agreement" / shard_name(0), table_of(agreement, AGREEMENT))
    records = compare(
        groups, measured, permutations=params.permutations, confidence=params.confidence, seed=params.seed
    )
    write_json(out / "significance.json", records)
    write_json(out / "method.json", _method(params, job.params, groups))
    write_json(out / "counts.json", counts)


def _clear(out: Path) -> None:
    """Results of an earlier run must not stand beside new predictions if this run is killed between them."""
    for name in ("predictions", "agreement"):
        shutil.rmtree(out / name, ignore_errors=True)
    for file in out.glob("*.json"):
        file.unlink()


def _count_splits(ratings: Path) -> dict[str, object]:
    splits = Counter(row["split"] for row in read_rows(ratings, RATINGS))
    test = splits.pop("test", 0)
    dropped = {f"{split} split": count for split, count in sorted(splits.items())}
    return {"rows_in": test + sum(splits.values()), "rows_out": test, "dropped": dropped}


def _layer(params: EvaluateParams, ratings: Path) -> int:
    """The layer that BERTScore matches with; 0, which nothing reads, where no baseline needs one."""
    if not ENCODED.intersection(params.baselines):
        return 0
    if params.bertscore_layer is not None:
        return params.bertscore_layer
    rows = [row for row in read_rows(ratings, RATINGS) if row["split"] == "validation"]
    return best_layer(params.bertscore_model, rows, params.batch_tokens)


def _job(params: EvaluateParams, variants: list[str], ratings: Path, metrics: Path, layer: int) -> Job:
    """One shard a metric; its inputs are the rating shards and, where it has one, its model's folder."""
    shards = list_shards(ratings)
    inputs: dict[str, list[Path]] = {}
    for variant in variants:
        if not (metrics / variant).is_dir():
            raise InputError(f"no trained metric {variant} in this folder (run finetune for it)", file=metrics)
        folder = metrics / variant
        check_max_tokens("evaluate.max_tokens", params.max_tokens, load_config(folder), load_tokenizer(folder))
        inputs[f"{TRAINED}{variant}"] = [*shards, folder]
    for baseline in params.baselines:
        inputs[baseline.value] = [*shards, locate(params.bertscore_model)] if baseline in ENCODED else shards
    scoring = ScoringParams(
        metrics=tuple(inputs),
        bertscore_model=params.bertscore_model,
        bertscore_layer=layer,
        max_tokens=params.max_tokens,
        batch_tokens=params.batch_tokens,
    )
    return Job("pipeline.evaluate.__main__", score_metric, list(inputs.values()), scoring)


def _method(params: EvaluateParams, scoring: ScoringParams, groups: list[Group]) -> dict[str, object]:
    """What a reader needs to repeat the numbers.

    The bootstrap's settings, each metric's signature, the language pairs that the averages leave out, each with the
    reason, and the WMT campaign's year of each corpus (null where there is none).
    """
    settings = {name: getattr(params, name) for name in ("resamples", "confidence", "permutations", "darr_gap", "seed")}
    reasons = [
        {"corpus": g.corpus, "aspect": g.aspect, "language_pair": g.language_pair, "reason": reason}
        for g in groups
        if (reason := left_out(g)) is not None
    ]
    years = {group.corpus: group.year for group in groups}
    published = sorted({metric for group in groups for metric in group.scores if metric.startswith(PUBLISHED)})
    return {
        "settings": settings,
        "signatures": _signatures(params, scoring) | dict.fromkeys(published, CAME_ALONG),
        "left_out": reasons,
        "years": years,
    }


def _signatures(params: EvaluateParams, scoring: ScoringParams) -> dict[str, str]:
    """How each metric was computed, in one line."""
    found = {}
    layer = f"layer {scoring.bertscore_layer}" + ("" if params.bertscore_layer else " (best on validation)")
    for name in scoring.metrics:
        if name.startswith(TRAINED):
            found[name] = f"checkpoint {name.removeprefix(TRAINED)}, pairs cut to {params.max_tokens} tokens"
        elif Baseline(name) in ENCODED:
            found[name] = encoded_signature(Baseline(name), params.bertscore_model, layer)
        else:
            found[name] = signature(Baseline(name))
    return found


if __name__ == "__main__":
    run_main(main)
