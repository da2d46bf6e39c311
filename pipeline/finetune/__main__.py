"""Fine-tune a pre-trained encoder on human ratings (paper, section 3).

python -m pipeline.finetune --pretrained models/pretrain/all --ratings data/collect --graded data/grade --out OUT
"""

import argparse
import functools
from pathlib import Path

from pipeline.core.outputs import making
from pipeline.core.params import load_params
from pipeline.core.runtime import run_main
from pipeline.finetune.finetuning import finetune
from pipeline.finetune.lessons import FinetuneParams
from pipeline.training.launch import launch


def main() -> None:
    """Parse paths, load the `finetune` section, train from one pre-trained folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--params", type=Path, default=Path("params.yaml"))
    for name in ("pretrained", "ratings", "graded", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    arguments = parser.parse_args()
    params = load_params(arguments.params, "finetune", FinetuneParams)
    with making(arguments.out) as out:
        finetune(params, arguments.pretrained, arguments.ratings, arguments.graded, out)


if __name__ == "__main__":
    run_main(functools.partial(launch, main))
