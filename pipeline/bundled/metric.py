"""Stores a trained metric in half precision, as the one that `bundled:metric` names, if that changes no score visibly.

    python -m pipeline.bundled.metric --checkpoint models/finetune/all --ratings data/collect --out OUT

With `--base package:NAME --rank R` only what the checkpoint changed in that encoder is stored (`pipeline.core.deltas`);
`bleurt benchmark` says what that costs.

If there are several checkpoints, trained from the same start, their weights are averaged first (Wortsman et al. 2022).
Only the encoder's matrices are stored in half precision. All rated pairs are scored before and after.
If a score moves by more than 2e-3, nothing is stored. For the metric that is shipped, OUT is models/bundled/metric.
This is no recipe of models/bundled/dvc.yaml: its checkpoints are chosen by hand, among runs of the other pipeline.
"""

import argparse
import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy
from safetensors.torch import load_file
from transformers import PreTrainedModel

from pipeline.core.deltas import changes, encoder_weights, write_changes
from pipeline.core.errors import ModelError
from pipeline.core.models import load_tokenizer, locate
from pipeline.core.packages import WEIGHTS
from pipeline.core.records import RATINGS
from pipeline.core.runtime import run_main
from pipeline.core.shards import read_rows
from pipeline.finetune.finetuning import average
from pipeline.metric.checkpoint import HEADS, TARGETS, load_metric, save_metric
from pipeline.metric.pairs import encode_pairs
from pipeline.metric.prediction import outputs

LARGEST_CHANGE = 2e-3
COMPARED = 300
MAX_TOKENS, BATCH_TOKENS = 128, 8192


@dataclass(frozen=True)
class Compact:
    """How a large metric is stored: `base` names the encoder that it came from, `rank` is kept of each matrix."""

    base: str
    rank: int


def store(checkpoints: Sequence[Path], ratings: Path, out: Path, compact: Compact | None = None) -> float:
    """Write the mean of `checkpoints` to `out`, in half precision or `compact`; returns the largest change of a score.

    A compact one is compared on about COMPARED pairs. A ModelError if half precision changes a score of a pair of
    `ratings` by more than LARGEST_CHANGE, or if the checkpoints have different weights.
    """
    pairs = list(dict.fromkeys((row["reference"], row["candidate"]) for row in read_rows(ratings, RATINGS)))
    if compact:
        pairs = pairs[:: max(1, len(pairs) // COMPARED)]
    references, candidates = [z for z, _ in pairs], [c for _, c in pairs]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "metric"
        model, tokenizer = _mean(checkpoints), load_tokenizer(checkpoints[0])
        encoded = encode_pairs(tokenizer, references, candidates, MAX_TOKENS)
        before = outputs(model, encoded, BATCH_TOKENS)
        save_metric(model.cpu() if compact else _halved(model.cpu()), tokenizer, folder)
        _set_dtype(folder / "config.json")
        if compact:
            shrink(folder, compact, f"{model.base_model_prefix}.")
        after = outputs(load_metric(folder), encoded, BATCH_TOKENS)
        change = float(numpy.abs(before - after).max())
        if compact is None and not change <= LARGEST_CHANGE:
            raise ModelError(
                f"{checkpoints[0]}: half precision changes a score by {change:.5f}, more than {LARGEST_CHANGE}."
            )
        for name in (HEADS, TARGETS):
            if (checkpoints[0] / name).exists():
                shutil.copy(checkpoints[0] / name, folder / name)
        shutil.copytree(folder, out, dirs_exist_ok=True)
    return change


def shrink(folder: Path, compact: Compact, prefix: str) -> None:
    """Replace the weights in `folder` by what they change in `compact.base`, whose weights begin with `prefix` here."""
    weights = load_file(folder / WEIGHTS)
    write_changes(
        folder, changes(weights, encoder_weights(locate(compact.base), prefix), compact.rank), compact.base, prefix
    )
    (folder / WEIGHTS).unlink()


def _mean(checkpoints: Sequence[Path]) -> PreTrainedModel:
    models = [load_metric(checkpoint) for checkpoint in checkpoints]
    states = [model.state_dict() for model in models]
    for checkpoint, state in zip(checkpoints, states, strict=True):
        if {n: w.shape for n, w in state.items()} != {n: w.shape for n, w in states[0].items()}:
            raise ModelError(f"{checkpoint}: has other weights than {checkpoints[0]}, so they have no mean.")
    models[0].load_state_dict(average(states))
    return models[0]


def _halved(model: PreTrainedModel) -> PreTrainedModel:
    for weight in model.base_model.parameters():
        if weight.ndim > 1:
            weight.data = weight.data.half()
    return model


def _set_dtype(file: Path) -> None:
    """Say in the config that the model computes in single precision; otherwise it would be loaded in half."""
    config = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**config, "dtype": "float32"}, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def main() -> None:
    """Parse paths, store, and say how far scores moved."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, nargs="+", required=True)
    for name in ("ratings", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--base", help="the encoder that the checkpoints came from: store only what changed in it")
    parser.add_argument("--rank", type=int, default=32, help="with --base: rank that is kept of each matrix's change")
    arguments = parser.parse_args()
    compact = Compact(arguments.base, arguments.rank) if arguments.base else None
    change = store(arguments.checkpoint, arguments.ratings, arguments.out, compact)
    print(f"{arguments.out}: scores moved by {change:.6f} at most")


if __name__ == "__main__":
    run_main(main)
