"""Evaluate: how well do the trained metrics and the baselines agree with people on the test rows?

    python -m pipeline.evaluate --ratings data/collect --metrics models/finetune --out data/evaluate

Writes OUT/predictions (one shard for each metric), OUT/agreement, OUT/clusters, OUT/significance.json, OUT/method.json
and OUT/counts.json; OUT/system_predictions too if a metric scores whole systems.
"""

import argparse
from pathlib import Path

from pipeline.core.outputs import making
from pipeline.core.params import load_names, load_params
from pipeline.core.runtime import run_main
from pipeline.evaluate.evaluation import EvaluateParams, evaluate
from pipeline.evaluate.metrics import known_metrics, load_sections, sections_of


def main() -> None:
    """Parse paths, load `evaluate` and `variants`, score, measure, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--params", type=Path, default=Path("params.yaml"))
    for name in ("ratings", "metrics", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    arguments = parser.parse_args()
    known = known_metrics()
    params = load_params(arguments.params, "evaluate", EvaluateParams, without=tuple(sections_of(known.values())))
    sections = load_sections(arguments.params, [known[name] for name in params.baselines])
    variants = load_names(arguments.params, "variants")
    with making(arguments.out) as out:
        evaluate(params, sections, variants, arguments.ratings, arguments.metrics, out)


if __name__ == "__main__":
    run_main(main)
