"""Make sentence pairs out of segments (section 4.1): mask-filling, backtranslation, word dropping; and beyond.

    python -m pipeline.perturb --params params.yaml --segments data/extract --out data/perturb

One shard of pairs for each shard of segments.
"""

import argparse
from pathlib import Path

from pipeline.core.errors import InputError
from pipeline.core.models import locate
from pipeline.core.params import load_params
from pipeline.core.runtime import run_main
from pipeline.core.shards import list_shards
from pipeline.core.work import Job, file_hash, run_job
from pipeline.perturb.pairs import PerturbParams, ShardedParams, perturb_shard


def main() -> None:
    """Parse the command line and perturb every shard."""
    parser = argparse.ArgumentParser(description="Make sentence pairs by perturbing segments.")
    parser.add_argument("--params", type=Path, required=True, help="params.yaml; its section is perturb")
    parser.add_argument("--segments", type=Path, required=True, help="folder of segment shards, from extract")
    parser.add_argument("--out", type=Path, required=True, help="folder for the shards of pairs")
    arguments = parser.parse_args()
    params = load_params(arguments.params, "perturb", PerturbParams)
    counts = run_job(make_job(params, arguments.segments), arguments.out)
    if not counts["rows_out"]:
        raise InputError(
            "no pair came of these segments; look at counts.json and the shares in perturb", file=arguments.out
        )
    print(f"perturb: {counts['rows_out']} pairs of {counts['rows_in']} attempts")


def make_job(params: PerturbParams, segments: Path) -> Job:
    """The work of the stage; the bytes of models and texts are part of every shard's fingerprint."""
    shards = list_shards(segments)
    files = [locate(name) for name in params.models()]
    for technique in (params.system_outputs, params.translate):
        if technique.pairs:
            files += [source.file() for source in technique.sources]
    return Job(
        module="pipeline.perturb.__main__",
        function=perturb_shard,
        inputs=[[shard] for shard in shards],
        params=ShardedParams(params, len(shards)),
        extra=" ".join(map(file_hash, files)),
    )


if __name__ == "__main__":
    run_main(main)
