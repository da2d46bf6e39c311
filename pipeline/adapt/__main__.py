"""Go on pre-training an encoder as a masked language model on the extracted text (mBERT-WMT in 002, section 3).

    python -m pipeline.adapt --params params.yaml --segments data/extract --out models/adapt/NAME

The names stand in `adapted` of params.yaml, which is empty: nobody needs this stage. `encoder` of any other stage then
names the folder that it made.
"""

import argparse
import functools
from pathlib import Path

from pipeline.adapt.adapting import AdaptParams, adapt
from pipeline.core.outputs import making
from pipeline.core.params import load_params
from pipeline.core.runtime import run_main
from pipeline.training.launch import launch


def main() -> None:
    """Parse paths, load the `adapt` section, train."""
    parser = argparse.ArgumentParser(description="Go on pre-training an encoder on the extracted text.")
    parser.add_argument("--params", type=Path, default=Path("params.yaml"), help="params.yaml; its section is adapt")
    parser.add_argument("--segments", type=Path, required=True, help="folder of segment shards, from extract")
    parser.add_argument("--out", type=Path, required=True, help="folder for the encoder")
    arguments = parser.parse_args()
    params = load_params(arguments.params, "adapt", AdaptParams)
    with making(arguments.out) as out:
        adapt(params, arguments.segments, out)


if __name__ == "__main__":
    run_main(functools.partial(launch, main))
