"""`bleurt score`: score candidates against references, in files of any length.

  bleurt score -r ref.txt -t system.txt                       # a score a line on standard output, nothing else
  bleurt score -r ref.txt -t a.txt b.txt --only_system        # a table of systems
  bleurt score --input pairs.jsonl --format json > scored.jsonl
  bleurt score -s src.txt -t system.txt -c DIR                # a checkpoint that reads no references
  paste ref.txt system.txt | bleurt score
  bleurt score -candidate_file c.txt -reference_file r.txt -bleurt_checkpoint DIR -scores_file s.txt

One system as text is a number a line. Several systems as text are a tab-separated table: a line for each segment, and
a last line for the systems. JSON is an object a line for each segment and system: all columns of a table, and under
"bleurt" the score and what else is known about it. LaTeX and --only_system show only the systems. A system's score is
the mean over its segments. Signature, system scores, warnings and progress go to standard error.
"""

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from pipeline.core.errors import InputError, ParamsError
from pipeline.scoring import output
from pipeline.scoring.inputs import (
    Segments,
    add_entailment,
    add_input_arguments,
    add_scorer_arguments,
    input_files,
    scorer_of,
    segments_of,
)
from pipeline.scoring.output import Format, as_json, check_destinations, written
from pipeline.scoring.start_up import lighten

if TYPE_CHECKING:
    from pipeline.scoring.results import Result, Results

SCORE_WIDTH = 6
"""Digits after the decimal point of segment scores."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its flags."""
    add_input_arguments(parser)
    add_scorer_arguments(parser)
    add_entailment(parser.add_argument)
    output.add_arguments(parser)
    add = parser.add_argument
    add("-scores_file", "--scores_file", metavar="FILE", type=Path, help="write here instead of standard output")
    add("--to_json", metavar="FILE", type=Path, help="also write all segments, system by system, as one JSON document")
    add("--only_system", action="store_true", help="only the systems' scores")
    add("--percentiles", action="store_true", help="percentiles among human-rated candidates instead of raw scores")
    add("--quiet", action="store_true", help="only errors on standard error")


def run(arguments: argparse.Namespace) -> int:
    """Check the input, score it, write the scores."""
    check_destinations(input_files(arguments), scores_file=arguments.scores_file, to_json=arguments.to_json)
    with segments_of(arguments) as segments:
        if arguments.to_json or (arguments.format is Format.JSON and not arguments.only_system):
            check_columns(segments)
        if getattr(arguments, "own_process", False):
            lighten()
        scorer = scorer_of(arguments)
        segments.check(scorer.beside.reads.needed)
        if arguments.percentiles and scorer.calibration is None:
            raise ParamsError(f"--percentiles: the checkpoint {scorer.checkpoint} is not calibrated.")

        from pipeline.scoring.results import Results, kept_as_json

        silent = arguments.quiet or not sys.stderr.isatty()
        results = Results(segments, scorer, arguments.batch_size, percentiles=arguments.percentiles, silent=silent)
        with kept_as_json(arguments.to_json, results) as keep, _destination(arguments.scores_file) as out:
            for result in _written(results, arguments, out):
                keep(result)
    if not arguments.quiet:
        for note in results.notes():
            print(note, file=sys.stderr)
    return 0


def check_columns(segments: Segments) -> None:
    """An InputError if a table has a column `bleurt`, as JSON puts the score there."""
    if "bleurt" in segments.columns:
        message = "has a column bleurt, where the score would go; rename or remove it"
        raise InputError(message, file=segments.systems[0])


@contextlib.contextmanager
def _destination(file: Path | None) -> Iterator[IO[str]]:
    """Standard output, or `file`, which appears or is replaced when all is written."""
    if file is None:
        yield sys.stdout
        return
    with written(file) as out:
        yield out


def _written(results: "Results", arguments: argparse.Namespace, out: IO[str]) -> Iterator["Result"]:
    """The results, each yielded after it was written to `out`."""
    several, style, width = len(results.totals) > 1, arguments.format, arguments.width
    each = not arguments.only_system and style is not Format.LATEX
    if each and several and style is Format.TEXT:
        out.write("\t".join(["segment", *(total.system for total in results.totals)]) + "\n")
    for result in results:
        if each and style is Format.JSON:
            out.writelines(
                as_json({**record, "bleurt": {**about, "signature": str(results.signature)}}) + "\n"
                for record, about in result.records()
            )
        elif each:
            out.write(_line(str(result.number) if several else None, result.values, width))
        yield result
    if not each:
        out.write(_systems(results, style, width) + "\n")
    elif several and style is Format.TEXT:
        out.write(_line("system", [results.shown(total) for total in results.totals], width))


def _line(name: str | None, values: list[float], width: int | None) -> str:
    """A tab-separated line: `name`, if there is one, and `values`."""
    digits = SCORE_WIDTH if width is None else width
    return "\t".join([*([] if name is None else [name]), *(f"{value:.{digits}f}" for value in values)]) + "\n"


def _systems(results: "Results", style: Format, width: int | None) -> str:
    """The systems' scores; of one system as text only the number."""
    rows = [total.row() for total in results.totals]
    if style is Format.JSON:
        return as_json({"signature": results.signature.as_dict(), "systems": rows})
    if style is Format.TEXT and len(rows) == 1:
        return output.shown(results.shown(results.totals[0]), width)
    return output.table(rows, style, width)
