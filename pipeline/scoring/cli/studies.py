"""`bleurt studies`: compare experiments that differ in one setting.

  dvc exp show --json | bleurt studies --out reports/studies

Writes OUT/studies.html, one page that opens offline, and OUT/studies.csv, every point of every chart.
"""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its flags."""
    add = parser.add_argument
    add("-i", "--input", "--experiments", type=Path, metavar="FILE",
        help="output of dvc exp show --json; by default standard input")  # fmt: skip
    add("--out", type=Path, required=True, metavar="FOLDER", help="where to write")


def run(arguments: argparse.Namespace) -> int:
    """Read the experiments, write page and points."""
    from pipeline.report import studies

    studies.write_studies(arguments.input, arguments.out)
    return 0
