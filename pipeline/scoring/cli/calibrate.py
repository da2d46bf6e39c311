"""`bleurt calibrate`: say what a checkpoint's scores mean, from rated candidates.

  bleurt calibrate --checkpoint models/finetune/all --ratings data/collect

Writes `calibration.json` into the checkpoint's folder. `bleurt score` then gives percentiles, and `bleurt compare` the
share of segments in which people would prefer a system. Rated rows are those of --split that collect wrote, usually
the validation rows; test rows would make the report's numbers look better than they are.
"""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from pipeline.core.errors import InputError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its flags."""
    add = parser.add_argument
    add("-c", "--checkpoint", required=True, metavar="NAME", help="a folder, or a name as in params.yaml")
    add("--ratings", required=True, type=Path, metavar="PATH", help="folder that collect wrote")
    add("--split", default="validation", help="rows to take: validation (default), train, test")
    add("--device", metavar="NAME", help="cpu, cuda, cuda:1, mps")


def run(arguments: argparse.Namespace) -> int:
    """Score the rated rows, and write what the scores mean."""
    from pipeline.core.records import RATINGS
    from pipeline.core.shards import read_rows, replacing
    from pipeline.scoring.calibration import FILE, calibrate
    from pipeline.scoring.scorer import BleurtScorer

    scorer = BleurtScorer(arguments.checkpoint, device=arguments.device)
    rows = [
        row
        for row in read_rows(arguments.ratings, RATINGS)
        if row["split"] == arguments.split and row["aspect"] == scorer.output
    ]
    if not rows:
        raise InputError(f"no rated row of {scorer.output}", file=arguments.ratings, value=arguments.split)
    found = calibrate(scorer.score, rows, arguments.split)
    with replacing(scorer.checkpoint / FILE) as temporary:
        temporary.write_text(json.dumps(asdict(found), indent=1) + "\n", encoding="utf-8")
    print(
        f"wrote {scorer.checkpoint / FILE}: {len(rows)} rated candidates, {found.pairs} pairs of one {found.pairs_of}"
    )
    return 0
