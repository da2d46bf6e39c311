"""Make candidates whose quality is known from how they are made, for the metric that is shipped (beyond the paper).

    python -m pipeline.grade --params params.yaml --segments data/extract --out data/grade

One shard of graded pairs for each shard of segments.
"""

import argparse
from pathlib import Path

from pipeline.core.params import load_params
from pipeline.core.runtime import run_main
from pipeline.core.shards import list_shards
from pipeline.core.work import Job, file_hash, run_job
from pipeline.grade.grading import GradeParams, ShardedGrades, grade_shard


def main() -> None:
    """Parse the command line and grade candidates for every shard."""
    parser = argparse.ArgumentParser(description="Make candidates of known quality.")
    parser.add_argument("--params", type=Path, default=Path("params.yaml"), help="params.yaml; its section is grade")
    parser.add_argument("--segments", type=Path, required=True, help="folder of segment shards, from extract")
    parser.add_argument("--out", type=Path, required=True, help="folder for the shards of graded pairs")
    arguments = parser.parse_args()
    params = load_params(arguments.params, "grade", GradeParams)
    counts = run_job(make_job(params, arguments.segments), arguments.out)
    print(f"grade: {counts['rows_out']} pairs of {counts['rows_in']} attempts")


def make_job(params: GradeParams, segments: Path) -> Job:
    """The work of the stage. The bytes of the parallel text and of inference are part of every shard's fingerprint."""
    shards = list_shards(segments)
    files = [source.file() for source in (*params.paraphrases.sources, *params.inference)]
    return Job(
        module="pipeline.grade.__main__",
        function=grade_shard,
        inputs=[[shard] for shard in shards],
        params=ShardedGrades(params, len(shards)),
        extra=" ".join(map(file_hash, files)),
        on_device=False,
        needs=files,
    )


if __name__ == "__main__":
    run_main(main)
