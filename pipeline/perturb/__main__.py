"""Make pairs of sentences by perturbing segments (section 4.1): reference and candidate, to pre-train on.

    python -m pipeline.perturb --params params.yaml --segments data/extract --out data/perturb

One shard of pairs for each shard of segments. The modules of `pipeline.perturb.techniques` describe what is done to the
segments.
"""

import argparse
from pathlib import Path

from pipeline.core.errors import InputError
from pipeline.core.modules import code_fingerprint
from pipeline.core.params import load_params, part_names
from pipeline.core.runtime import run_main
from pipeline.core.shards import list_shards
from pipeline.core.work import Job, file_hash, run_job
from pipeline.perturb.pairs import TECHNIQUES, PerturbParams, Plan, load_technique, perturb_shard


def main() -> None:
    """Parse the command line and perturb every shard."""
    parser = argparse.ArgumentParser(description="Make sentence pairs by perturbing segments.")
    parser.add_argument("--params", type=Path, default=Path("params.yaml"), help="params.yaml; its section is perturb")
    parser.add_argument("--segments", type=Path, required=True, help="folder of segment shards, from extract")
    parser.add_argument("--out", type=Path, required=True, help="folder for the shards of pairs")
    arguments = parser.parse_args()
    counts = run_job(make_job(arguments.params, arguments.segments), arguments.out)
    if not counts["rows_out"]:
        raise InputError(
            "these segments gave no pair; look at counts.json there, and at the shares in perturb", file=arguments.out
        )
    print(f"perturb: {counts['rows_out']} pairs of {counts['rows_in']} attempts")


def make_job(params_file: Path, segments: Path) -> Job:
    """The work of the stage. Each technique's code, models and texts are part of every shard's fingerprint."""
    names = part_names(params_file, "perturb")
    modules = {name: load_technique(name, f"{params_file}: perturb") for name in names}
    params = load_params(params_file, "perturb", PerturbParams, without=names)
    techniques = {name: load_params(params_file, f"perturb.{name}", modules[name].Params) for name in names}
    shards = list_shards(segments)
    needed = [file for name in names for file in modules[name].needs(techniques[name])]
    code = [code_fingerprint(f"{TECHNIQUES}.{name}") for name in names]
    return Job(
        module="pipeline.perturb.__main__",
        function=perturb_shard,
        inputs=[[shard] for shard in shards],
        params=Plan(params.seed, techniques, len(shards)),
        extra=" ".join([*code, *map(file_hash, dict.fromkeys(needed))]),
        needs=needed,
    )


if __name__ == "__main__":
    run_main(main)
