"""`bleurt calibrate`: say what a checkpoint's scores mean, from rated candidates.

  bleurt calibrate --checkpoint models/finetune/all --ratings data/collect
  bleurt calibrate --checkpoint models/finetune/all --ratings data/collect --comparisons mine.tsv --scale 100
  bleurt calibrate --checkpoint bundled:metric --ratings data/sample/ratings.tsv --scale 100 --out mine.json

Writes `calibration.json` into the checkpoint's folder, or --out. `bleurt score` then gives percentiles, and `bleurt
compare` the share of segments in which people would prefer a system.

--ratings are a folder that collect wrote, or a table of your own (as `bleurt benchmark` reads it). Percentiles come
from the rows of --split, usually the validation rows; test rows would make the report's numbers look better than they
are. Of a table all rows are taken.

P(A better than B) comes from pairs of candidates of one reference, in --comparisons or else in --ratings: collected
rows of all splits but test, and tables whole. One slope is fitted to all of them, and its calibration error is
measured on held-out references (`pipeline.scoring.preference`). A checkpoint has learned from its training rows, so
look at the error on the others too: it is printed for each corpus and split. If there are too few pairs of one
reference, pairs of different references stand in for them, and the output says so.
"""

import argparse
import json
import math
from collections.abc import Collection, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.core.errors import InputError, ParamsError

if TYPE_CHECKING:
    from pipeline.scoring.calibration import Calibration

NOT_TEST = ("train", "validation")
WHOLE = "all"
"""The split of rows that no split was made of."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its flags."""
    add = parser.add_argument
    add("-c", "--checkpoint", required=True, metavar="NAME", help="a folder, or a name as in params.yaml")
    add("--ratings", required=True, type=Path, metavar="PATH", help="a folder that collect wrote, or a table")
    add("--split", default="validation", help="collected rows to take: validation (default), train, test")
    add("--comparisons", nargs="+", action="extend", type=Path, metavar="PATH",
        help="ratings with several candidates of one reference (default: --ratings)")  # fmt: skip
    add("--scale", type=float, metavar="N", help="the highest rating of tables; without it ratings are standardised")
    add("--out", type=Path, metavar="FILE", help="write here instead of the checkpoint's folder")
    add("--device", metavar="NAME", help="cpu, cuda, cuda:1, mps")


def run(arguments: argparse.Namespace) -> int:
    """Score the rated rows, and write what the scores mean."""
    from pipeline.core.shards import replacing
    from pipeline.scoring.calibration import FILE, calibrate
    from pipeline.scoring.output import check_destinations
    from pipeline.scoring.scorer import BleurtScorer

    scale = arguments.scale
    if scale is not None and not 0 < scale < math.inf:
        raise ParamsError(f"--scale: must be a positive number, not {scale}.")
    places = arguments.comparisons or [arguments.ratings]
    check_destinations([str(place) for place in (arguments.ratings, *places)], out=arguments.out)
    rated = list(rows_of(arguments.ratings, [arguments.split], scale))
    compared = [row for place in dict.fromkeys(places) for row in rows_of(place, NOT_TEST, scale)]
    # the texts were read as collect reads them; what was escaped twice keeps its second layer
    scorer = BleurtScorer(arguments.checkpoint, device=arguments.device, character_references="kept")
    mine = [row for row in rated if row["aspect"] == scorer.output]
    if not mine:
        raise InputError(f"no rated row of {scorer.output}", file=arguments.ratings, value=arguments.split)
    compared = [row for row in compared if row["aspect"] == scorer.output]
    found = calibrate(scorer.score, mine, mine[0]["split"], compared)
    place = arguments.out or scorer.checkpoint / FILE
    with replacing(place) as temporary:
        temporary.write_text(json.dumps(asdict(found), indent=1) + "\n", encoding="utf-8")
    print(f"wrote {place}: {len(mine):,} rated candidates")
    print("\n".join(preference_lines(found)))
    return 0


def rows_of(place: Path, splits: Collection[str], scale: float | None) -> Iterator[dict[str, Any]]:
    """The rows of `splits` that collect wrote to `place`, or all rows of a table."""
    from pipeline.scoring.ratings import is_collected, read_collected, read_own

    if is_collected(place):
        yield from read_collected(place, splits)
    else:
        yield from ({**row, "split": WHOLE} for row in read_own(place, scale))


def preference_lines(found: "Calibration") -> Iterator[str]:
    """P(A better than B) in words: its pairs, its meaning, and its error."""
    from pipeline.scoring.calibration import ONE_REFERENCE
    from pipeline.scoring.preference import LEAST_PAIRS, LEAST_REFERENCES

    if found.pairs_of != ONE_REFERENCE:
        yield (
            f"warning: there are fewer than {LEAST_PAIRS} pairs of candidates of one reference, or fewer than "
            f"{LEAST_REFERENCES} such references"
        )
    yield f"P(A better than B): {found.pairs:,} pairs of candidates of {found.shared()}"
    if found.slope is None:
        yield "  no two scores differ, so that it is not known"
    elif found.slope > 0:
        yield f"  a difference of {math.log(3) / found.slope:.2f} is 75%"
    else:
        yield "  the higher score is not the better candidate here"
    if found.error is None:
        yield "  its error on candidates of one reference is not known"
    else:
        yield f"  calibration error on held-out references: {_points(found.error, found.error_by_chance)}"
    for one in found.checks if len(found.checks) > 1 else ():
        yield f"    {one.corpus}, {one.split}, {one.pairs:,} pairs: {_points(one.error, one.error_by_chance)}"


def _points(error: float, by_chance: float | None) -> str:
    return f"{error:.1f} points of 100" + ("" if by_chance is None else f" ({by_chance:.1f} by chance alone)")
