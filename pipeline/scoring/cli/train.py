"""`bleurt train`: say how to train a metric of your own.

Training is the pipeline: `dvc repro` runs it from raw text and human ratings to a checkpoint and a report.

  make repro                                   # environment, then the whole pipeline with the profile of params.yaml
  dvc exp run -S profile=local                 # on real data in data/real
  dvc exp run -S 'variants=[all,none]'         # with and without pre-training; every key of params.yaml can be set

Own ratings go into data/own/ and are named in params.yaml (README.md, "Your own data"). The metric is then in
models/finetune/VARIANT:

  bleurt score -r ref.txt -t system.txt --checkpoint models/finetune/all
"""

import argparse


def add_arguments(_: argparse.ArgumentParser) -> None:
    """It has none."""


def run(_: argparse.Namespace) -> int:
    """Print how."""
    assert __doc__ is not None
    print(__doc__.partition("\n\n")[2], end="")
    return 0
