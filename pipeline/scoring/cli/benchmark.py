"""`bleurt benchmark`: measure how well checkpoints and baselines agree with people, on ratings of your own.

  bleurt benchmark --ratings my.csv --scale 100
  bleurt benchmark --ratings my.csv -c models/finetune/all models/finetune/none --baselines bertscore chrf++
  bleurt benchmark --ratings data/collect

The pipeline's own evaluation: Kendall, Pearson, Spearman and DARR by language pair and on average, with bootstrap
intervals, beside the baselines, and paired tests against the best of them. Ratings are a CSV, TSV, JSONL or Parquet
file (or a folder of such) with the columns reference, candidate and score, as the layout `own` reads them, or a folder
that the stage collect wrote, whose rows of --split are taken. Texts are read as `collect` reads them (character
references undone, rows with more than 256 words left out), without the clean-up of `bleurt score`, so that the numbers
are those of the pipeline.
"""

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy

from pipeline.core.errors import InputError, ModelError, ParamsError
from pipeline.evaluate.names import ENCODED, TRAINED, Baseline
from pipeline.scoring import output
from pipeline.scoring.arguments import at_least_one, one_of
from pipeline.scoring.cli.agreement import Settings, evaluate, render, without_nan
from pipeline.scoring.cli.compare import add_encoder_arguments
from pipeline.scoring.output import Format

Row = dict[str, Any]
MAX_TOKENS = 128
MAX_WORDS = 256
"""Of a text, as `collect.max_words` has it."""

BATCH_TOKENS = 8192


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its flags."""
    add = parser.add_argument
    add("--ratings", type=Path, required=True, metavar="PATH", help="a file, or a folder")
    add("--scale", type=float, metavar="N", help="the highest rating; without it ratings are standardised ones")
    add("--split", default="test", help="of a folder that collect wrote: test (default), validation, train")
    add("-c", "--checkpoint", "--model", "-bleurt_checkpoint", "--bleurt_checkpoint", nargs="+", action="extend",
        metavar="NAME",
        help="folders, or names as in params.yaml; the bundled metric by default")  # fmt: skip
    add("--baselines", nargs="*", action="extend", type=one_of(Baseline), metavar="NAME",
        help=f"of {', '.join(Baseline)} (default: all)")  # fmt: skip
    add_encoder_arguments(parser)
    add("--max_tokens", type=at_least_one, metavar="N", help=f"tokens of a pair that are read (default {MAX_TOKENS})")
    add("--resamples", type=at_least_one, default=1000, metavar="N", help="of the bootstrap (default 1000)")
    add("--permutations", type=at_least_one, default=1000, metavar="N", help="of the paired tests (default 1000)")
    add("--confidence", type=float, default=0.95, metavar="P", help="of the intervals (default 0.95)")
    add("--darr_gap", type=float, default=25.0, metavar="N", help="points of 100 that people told apart (default 25)")
    add("--seed", type=int, default=1, metavar="N", help="of resamples and permutations (default 1)")
    output.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read the ratings, score them with everything that is named, measure, print."""
    if not 0 < arguments.confidence < 1:
        raise ParamsError(f"--confidence: must lie between 0 and 1, not {arguments.confidence}.")
    if arguments.scale is not None and not 0 < arguments.scale < math.inf:
        raise ParamsError(f"--scale: must be a positive number, not {arguments.scale}.")
    settings = Settings(
        arguments.resamples, arguments.permutations, arguments.confidence, arguments.darr_gap, arguments.seed
    )
    rows = read_ratings(arguments.ratings, arguments.scale, arguments.split)
    scores, signatures = score_all(rows, arguments)
    found = {**evaluate(rows, scores, settings), "settings": asdict(settings), "signatures": signatures}
    if arguments.format is Format.JSON:
        print(json.dumps(without_nan(found), ensure_ascii=False, indent=1))
    else:
        print(render(found, arguments.format, arguments.width))
    return 0


def read_ratings(place: Path, scale: float | None, split: str) -> list[Row]:
    """Rows of `pipeline.core.records.RATINGS`: all of an own file, or those of `split` that collect wrote."""
    from pipeline.collect.corpus import Corpus, Layout, Part, Split
    from pipeline.collect.gather import cleaned
    from pipeline.collect.layouts.own import load_own
    from pipeline.core.records import RATINGS
    from pipeline.core.shards import read_rows

    if place.is_dir() and any(place.glob("part-*.parquet")):
        rows = [row for row in read_rows(place, RATINGS) if row["split"] == split]
        if not rows:
            raise InputError("no row has the split", file=place, value=split)
        years: dict[str, set[int | None]] = {}
        for row in rows:
            years.setdefault(row["corpus"], set()).add(row["year"])
        for row in rows:  # each year is a benchmark of its own, with its own rule for DARR
            if len(years[row["corpus"]]) > 1:
                row["corpus"] = f"{row['corpus']} {row['year']}"
        return rows
    name = place.name.split(".")[0] or "ratings"
    if not place.exists():
        raise InputError("no such file or folder", file=place)
    own = Corpus(name, Layout.OWN, (Part(str(place), None),), ("*",), (), Split.TEST, None, scale)
    loaded = cleaned(load_own(own), True, MAX_WORDS)
    if not loaded.ratings:
        raise InputError("holds no rating", file=place)
    for reason, count in loaded.dropped.items():
        print(f"warning: {place}: {count} rows are left out: {reason}", file=sys.stderr)
    rows = [asdict(rating) for rating in loaded.ratings]
    for row in rows:
        row.update(rating_id=f"{name}/{row.pop('key')}", corpus=name, split="test")
    return rows


def score_all(rows: Sequence[Row], arguments: argparse.Namespace) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    """Metric -> rating -> score, and metric -> signature, of the checkpoints and then of the baselines."""
    from tqdm import tqdm

    from pipeline.core.models import locate
    from pipeline.evaluate.metrics.counts import encoded_signature, signature
    from pipeline.evaluate.predictions import ScoringParams, score_rows

    def params(name: str, max_tokens: int) -> ScoringParams:
        encoder = arguments.bertscore_model, arguments.bertscore_layer
        return ScoringParams((name,), *encoder, max_tokens=max_tokens, batch_tokens=BATCH_TOKENS)

    jobs: dict[str, tuple[Path, ScoringParams]] = {}
    signatures: dict[str, str] = {}
    for name, folder in named_checkpoints(arguments.checkpoint or ["bundled:metric"]).items():
        max_tokens = usable(folder, arguments.max_tokens)
        jobs[name], signatures[name] = (folder, params(name, max_tokens)), checkpoint_signature(folder, max_tokens)
        warn_of_cuts(name, rows, folder, max_tokens)
    for baseline in dict.fromkeys(Baseline if arguments.baselines is None else arguments.baselines):
        encoded = baseline in ENCODED
        folder = locate(arguments.bertscore_model) if encoded else Path()
        jobs[baseline.value] = folder, params(baseline.value, MAX_TOKENS)
        text = encoded_signature(baseline, arguments.bertscore_model, f"layer {arguments.bertscore_layer}")
        signatures[baseline.value] = text if encoded else signature(baseline)
    scores = {}
    for name, (folder, settings) in tqdm(jobs.items(), unit="metric", disable=not sys.stderr.isatty()):
        values = score_rows(name, rows, folder, settings)
        known = numpy.isfinite(values)
        if name.startswith(TRAINED) and not known.all():
            raise ModelError(f"{name}: gives some ratings no finite score.")
        if not known.all():
            print(f"warning: {name}: cannot read the writing of {(~known).sum()} ratings", file=sys.stderr)
        scores[name] = {row["rating_id"]: float(values[place]) for place, row in enumerate(rows) if known[place]}
    return scores, signatures


def warn_of_cuts(name: str, rows: Sequence[Row], folder: Path, max_tokens: int) -> None:
    """Say on standard error how many pairs the checkpoint in `folder` does not read to their end, if any."""
    from pipeline.core.models import load_tokenizer
    from pipeline.metric.pairs import encode_pairs

    texts = [(one, row["candidate"]) for row in rows for one in (row["reference"], *row["other_references"])]
    references, candidates = [text for text, _ in texts], [text for _, text in texts]
    cut = encode_pairs(load_tokenizer(folder), references, candidates, max_tokens).truncated
    if cut:
        print(
            f"warning: {name}: {cut} of {len(texts)} pairs have more than {max_tokens} tokens and were cut",
            file=sys.stderr,
        )


def named_checkpoints(given: Sequence[str]) -> dict[str, Path]:
    """ "bleurt/<folder's name>" -> folder; where two folders share a name, what was given stands in its place."""
    from pipeline.core.models import locate

    if len(set(given)) < len(given):
        raise ParamsError("--checkpoint names a checkpoint twice.")
    folders = [locate(name) for name in given]
    names = [folder.name for folder in folders]
    return {
        f"{TRAINED}{name if names.count(name) == 1 else whole}": folder
        for name, whole, folder in zip(names, given, folders, strict=True)
    }


def usable(folder: Path, wanted: int | None) -> int:
    """Tokens of a pair that the checkpoint in `folder` reads; a `wanted` number that it cannot is a ParamsError."""
    from pipeline.core.models import check_max_tokens, load_config, load_tokenizer, usable_tokens

    config, tokenizer = load_config(folder), load_tokenizer(folder)
    max_tokens = wanted or min(MAX_TOKENS, usable_tokens(config, tokenizer))
    check_max_tokens("--max_tokens", max_tokens, config, tokenizer)
    return max_tokens


def checkpoint_signature(folder: Path, max_tokens: int) -> str:
    """As that of `bleurt score`; the texts are read as the pipeline reads them, and each aspect by its own output."""
    from pipeline.core import runtime
    from pipeline.core.models import load_config
    from pipeline.scoring.signature import Signature, checkpoint_hash, package_version

    outputs = "+".join(str(name) for name in load_config(folder).id2label.values())
    precision = runtime.precision()
    found = Signature(
        checkpoint_hash(folder), outputs, package_version(), precision, max_tokens, "max", "cut", edges="none"
    )
    return str(found)
