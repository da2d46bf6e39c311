"""`python -m bleurt.score_files`, with the flags of the original.

  python -m bleurt.score_files -candidate_file=c.txt -reference_file=r.txt -bleurt_checkpoint=DIR -scores_file=s.txt
  python -m bleurt.score_files -sentence_pairs_file=pairs.jsonl -bleurt_checkpoint=DIR -scores_file=s.txt

The scores are those of `bleurt score`, a number a line. -read_buffer_size and -batch_same_length are accepted and
change nothing: the input is read in chunks, and batches are always of similar length.
"""

import argparse
import sys
from collections.abc import Sequence

from pipeline.scoring.__main__ import main as bleurt

FILES = ("candidate_file", "reference_file", "sentence_pairs_file", "scores_file", "bleurt_checkpoint")
DIGITS = "9"
"""Digits after the decimal point, as many as a score in single precision has."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Score the files; returns the exit code."""
    parser = argparse.ArgumentParser("bleurt.score_files", description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    for name in (*FILES, "bleurt_batch_size", "read_buffer_size"):
        parser.add_argument(f"-{name}", f"--{name}", metavar="VALUE")
    parser.add_argument("-batch_same_length", "--batch_same_length", nargs="?", const="true", metavar="BOOL")
    parser.add_argument("-nobatch_same_length", "--nobatch_same_length", action="store_true")
    given = vars(parser.parse_args(arguments))
    if given["sentence_pairs_file"]:  # it overrides the two others
        given["candidate_file"] = given["reference_file"] = None
    passed = [part for name in (*FILES, "bleurt_batch_size") if given[name] for part in (f"-{name}", given[name])]
    return bleurt(["score", "--width", DIGITS, *passed])


if __name__ == "__main__":
    sys.exit(main())
