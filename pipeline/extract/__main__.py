"""Takes sentences out of Wikipedia dumps: the segments that all pairs are made from (section 4.1).

python -m pipeline.extract --params params.yaml --out data/extract
"""

import argparse
from pathlib import Path

from pipeline.core import work
from pipeline.core.outputs import alone, making
from pipeline.core.params import load_params
from pipeline.core.runtime import run_main
from pipeline.extract.extraction import ExtractParams, extract, forget


def main() -> None:
    """Write `out/part-*.parquet` of SEGMENTS and `out/counts.json`; a run after a kill continues the killed one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--params", type=Path, default=Path("params.yaml"), help="params.yaml")
    parser.add_argument("--out", type=Path, required=True, help="folder for the segments")
    arguments = parser.parse_args()
    params = load_params(arguments.params, "extract", ExtractParams)
    with alone(work.WORK / "extract"):
        with making(arguments.out) as out:
            counts = extract(params, out)
        pages = counts["pages"]
        forget(keep_articles="not_sampled" in pages["dropped"])
    print(f"extract: {counts['rows_out']} segments of {counts['rows_in']} sentences, {pages['rows_out']} articles")
    if params.segments is not None and counts["rows_out"] < params.segments:
        print(f"extract: fewer than extract.segments, {params.segments}: the source has no more")


if __name__ == "__main__":
    run_main(main)
