"""Make one metric out of the fine-tuned ones: the metric that is shipped (beyond the paper).

python -m pipeline.stages.distil --finetuned models/finetune --pretrained models/pretrain --pairs data/perturb \
    --graded data/grade --ratings data/collect --out models/distil
"""

import argparse
from dataclasses import fields
from pathlib import Path

from pipeline.core.params import load_params
from pipeline.core.runtime import run_main
from pipeline.training.distilling import DistilParams, Inputs, distil


def main() -> None:
    """Parse paths, load the `distil` section, train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--params", type=Path, default=Path("params.yaml"))
    names = [field.name for field in fields(Inputs)]
    for name in (*names, "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    arguments = parser.parse_args()
    params = load_params(arguments.params, "distil", DistilParams)
    distil(params, Inputs(**{name: getattr(arguments, name) for name in names}), arguments.out)


if __name__ == "__main__":
    run_main(main)
