"""Warm the encoder up on synthetic pairs with automatic signals as targets (paper, section 4).

python -m pipeline.pretrain --variant all --pairs data/perturb --labels data/label --out models/pretrain/all
"""

import argparse
import functools
from pathlib import Path

from pipeline.core.outputs import making
from pipeline.core.params import load_names, load_params
from pipeline.core.runtime import run_main
from pipeline.pretrain.pretraining import PretrainParams, pretrain
from pipeline.training.launch import launch


def main() -> None:
    """Parse paths, load the `pretrain` section, train one variant."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--params", type=Path, default=Path("params.yaml"))
    parser.add_argument("--variant", required=True)
    for name in ("pairs", "labels", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    arguments = parser.parse_args()
    params = load_params(arguments.params, "pretrain", PretrainParams)
    signals = load_names(arguments.params, "signals")
    with making(arguments.out) as out:
        pretrain(params, signals, arguments.variant, arguments.pairs, arguments.labels, out)


if __name__ == "__main__":
    run_main(functools.partial(launch, main))
