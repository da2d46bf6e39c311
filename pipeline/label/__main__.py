"""Label the pairs with one signal: `python -m pipeline.label --signal bleu --pairs data/perturb --out ...`.

Each shard of pairs gives one shard of values, rows in the same order. DVC runs this once for each signal.
"""

import argparse
import functools
from pathlib import Path

from pipeline.core import modules
from pipeline.core.modules import code_fingerprint
from pipeline.core.params import load_params
from pipeline.core.runtime import run_main
from pipeline.core.shards import list_shards
from pipeline.core.work import Job, file_hash, run_job
from pipeline.label.labelling import SIGNALS, label_shard, load_signal


def main() -> None:
    """Parse the command line and label every shard."""
    parser = argparse.ArgumentParser(description="Label pairs with one pre-training signal.")
    parser.add_argument(
        "--params", type=Path, default=Path("params.yaml"), help="params.yaml; its section is label.<signal>"
    )
    parser.add_argument("--signal", choices=modules.names(SIGNALS), required=True)
    parser.add_argument("--pairs", type=Path, required=True, help="folder of pair shards, from perturb")
    parser.add_argument("--out", type=Path, required=True, help="folder for the signal's shards")
    arguments = parser.parse_args()
    counts = run_job(make_job(arguments.params, arguments.signal, arguments.pairs), arguments.out)
    print(f"label {arguments.signal}: {counts['rows_out']} pairs")


def make_job(params_file: Path, name: str, pairs: Path) -> Job:
    """The work of the signal `name`; its own code and models are part of every shard's fingerprint."""
    signal = load_signal(name)
    params = load_params(params_file, f"label.{name}", signal.Params)
    models = signal.models(params)
    used = [code_fingerprint(f"{SIGNALS}.{name}"), *map(file_hash, models)]
    return Job(
        module="pipeline.label.__main__",
        function=functools.partial(label_shard, name),
        inputs=[[shard] for shard in list_shards(pairs)],
        params=params,
        extra=" ".join(used),
        on_device=bool(models),
        needs=models,
    )


if __name__ == "__main__":
    run_main(main)
