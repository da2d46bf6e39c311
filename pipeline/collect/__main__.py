"""Collect human ratings of all corpora into one table, split so that no reference or source is shared.

    python -m pipeline.collect --params params.yaml --out data/collect

Writes OUT/part-*.parquet (`pipeline.core.records.RATINGS`) and OUT/counts.json.
"""

import argparse
from pathlib import Path

from pipeline.collect.corpus import CollectParams
from pipeline.collect.gather import collect
from pipeline.core.outputs import making
from pipeline.core.params import load_params
from pipeline.core.runtime import run_main


def main() -> None:
    """Parse paths, load the `collect` section, collect, say what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--params", type=Path, default=Path("params.yaml"))
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    params = load_params(arguments.params, "collect", CollectParams)
    with making(arguments.out) as out:
        counts = collect(params, out)
    for name, corpus in counts["by_corpus"].items():
        splits = ", ".join(f"{count} {split}" for split, count in corpus["by_split"].items() if count)
        print(f"collect: {name}: {corpus['rows_out']} of {corpus['rows_in']} rows ({splits})", flush=True)


if __name__ == "__main__":
    run_main(main)
