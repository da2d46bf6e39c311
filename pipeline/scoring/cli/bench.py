"""`bleurt bench`: measure how fast scoring and training are, as ratios that another machine can check.

  bleurt bench --ratings data/collect --threads 2

Everything is measured in one run with the same weights, in rounds, each way in turn, so that a slow minute of the
machine falls on all of them; medians are shown. Pairs are distinct, so nothing is won by scoring equal pairs once.

- Padding to 512 and to 128 tokens in batches of 16, as the original does. Every pair costs the same there, so a part
  of the pairs stands for all.
- transformers' text-classification pipeline with batches of 32, on all pairs in their own order.
- Our scorer with torch's plain linear layers, and with each --precision that this processor has: times, and how far the
  scores move on the same pairs (mean, largest, Kendall with the ratings).
- The share of the machine's matrix-product rate: the model's operations a second on all tokens except padding, over
  the rate of torch's fastest kernel (torch.matmul, or oneDNN on packed weights) on the shapes that the encoder has.
- Start-up: a process that scores one pair with `bleurt score`, minus one that imports torch.
- Memory: the largest resident set of `bleurt score` on files of 10,000 and of --memory_pairs pairs.
- A training step over a bare forward and backward pass, if --ratings is a folder that collect wrote: fine-tuning as
  params.yaml describes it, on that folder's training rows.
"""

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.core import runtime
from pipeline.core.errors import BleurtError, ParamsError
from pipeline.scoring.inputs import add_checkpoint, at_least_one

if TYPE_CHECKING:
    from pipeline.scoring.costs import Sizes
    from pipeline.scoring.scorer import BleurtScorer

SAMPLE = Path("data/sample/ratings.tsv")
PADDED_PAIRS = {512: 48, 128: 192}
"""Number of tokens that every pair is padded to -> number of pairs that stand for all."""

PADDED_BATCH, PIPELINE_BATCH = 16, 32
FEW_PAIRS = 10_000

SCORING_CHILD = """
import sys
from pipeline.scoring.__main__ import main
from pipeline.scoring.cli.bench import peak_bytes
code = main(sys.argv[1:])
print(peak_bytes(), file=sys.stderr)
sys.exit(code)
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its flags."""
    add = parser.add_argument
    add_checkpoint(add)
    add("--ratings", type=Path, default=SAMPLE, metavar="PATH",
        help=f"pairs: a file of ratings, or a folder that collect wrote (default {SAMPLE})")  # fmt: skip
    add("--pairs", type=at_least_one, default=4000, metavar="N", help="at most N of them (default 4000)")
    add("--threads", type=at_least_one, default=2, metavar="N", help="threads of torch (default 2)")
    add("--rounds", type=at_least_one, default=3, metavar="N", help="how often each way is measured (default 3)")
    add("--memory_pairs", type=int, default=100_000, metavar="N", help="0 leaves memory out (default 100000)")
    add("--steps", type=int, default=24, metavar="N", help="training steps; 0 leaves training out (default 24)")
    add("--params", type=Path, default=Path("params.yaml"), metavar="FILE", help="settings of a training step")
    add("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Measure and print."""
    if not arguments.ratings.exists():
        raise ParamsError(f"--ratings: there is no {arguments.ratings}; name a file of ratings or a collected folder.")
    rated = dict(list(pairs_of(arguments.ratings).items())[: arguments.pairs])
    checkpoint, threads = arguments.checkpoint or "bundled:metric", arguments.threads
    training = {}
    if arguments.steps > 0 and any(arguments.ratings.glob("part-*.parquet")):
        training["training"] = bench_training(arguments.params, arguments.ratings, arguments.steps, threads)
    found = bench(checkpoint, rated, threads, arguments.rounds, arguments.memory_pairs) | training
    print(json.dumps(found, indent=1) if arguments.json else render(found))
    return 0


def pairs_of(ratings: Path) -> dict[tuple[str, str], float]:
    """The distinct (reference, candidate) pairs of the test rows that collect wrote, or of a file of ratings.

    Each has the last of its ratings.
    """
    from pipeline.scoring.ratings import read_benchmark
    from pipeline.scoring.unusual_texts import CharacterReferences

    rows = read_benchmark(ratings, None, "test", CharacterReferences.UNDONE)
    return {(row["reference"], row["candidate"]): row["score"] for row in rows}


def bench(
    checkpoint: str, rated: dict[tuple[str, str], float], threads: int, rounds: int, memory_pairs: int
) -> dict[str, Any]:
    """All measurements of scoring; times are medians in seconds."""
    import torch

    from pipeline.scoring.costs import moved, option_ways, pair_operations, sizes_of
    from pipeline.scoring.scorer import BleurtScorer

    torch.set_num_threads(threads)
    pairs = list(rated)
    scorer = BleurtScorer(checkpoint, device="cpu", precision="float32")
    sizes = sizes_of(scorer.model.config)
    first = pairs[:PIPELINE_BATCH]
    scorer.score([pair[0] for pair in first], [pair[1] for pair in first])  # the first batch is slower
    options = option_ways(checkpoint, pairs)
    changes = moved({name: score() for name, (_, score) in options.items()}, list(rated.values()))
    times, rates = _interleaved({**ways(scorer, pairs), **options}, sizes, rounds)
    ours = times["ours"]
    operations = sum(pair_operations(length, sizes) for length in _lengths(scorer, pairs))
    starts = [(_seconds_of(["-c", "import torch"], threads), _first_score(checkpoint, threads)) for _ in range(rounds)]
    found: dict[str, Any] = {
        "pairs": len(pairs),
        "threads": threads,
        "rounds": rounds,
        "pairs_a_second": 1 / ours,
        "times_faster": {name: spent / ours for name, spent in times.items() if name != "ours"},
        "moved": {name: str(change) for name, change in changes.items() if name in times},
        "matrix_product_rate": rates,
        "share_of_matrix_product_rate": operations / len(pairs) / ours / rates,
        "import_torch_seconds": statistics.median(start[0] for start in starts),
        "start_up_over_torch_seconds": statistics.median(start[1] - start[0] for start in starts),
        "machine": runtime.record()["processor"],
        "signature": str(scorer.signature()),
    }
    if memory_pairs:
        counts = (FEW_PAIRS, memory_pairs)
        found["peak_bytes"] = {str(count): _memory(checkpoint, count, threads) for count in counts}
    return found


def bench_training(params: Path, folder: Path, steps: int, threads: int) -> dict[str, float]:
    """Median seconds of a fine-tuning step, and of a bare forward and backward pass over as many tokens."""
    import torch

    from pipeline.core.models import load_tokenizer, locate
    from pipeline.core.params import load_params
    from pipeline.finetune.lessons import FinetuneParams, read_rated
    from pipeline.metric.checkpoint import new_metric
    from pipeline.metric.pairs import encode_pairs
    from pipeline.pretrain.pretraining import PretrainParams
    from pipeline.scoring.costs import step_seconds

    torch.set_num_threads(threads)
    tuning, encoder = load_params(params, "finetune", FinetuneParams), load_params(params, "pretrain", PretrainParams)
    model = new_metric(encoder.encoder, encoder.head, tuning.aspects, tuning.dropout, tuning.schedule.seed)
    model.to(runtime.device())
    rated = read_rated(folder, "train", tuning.aspects)
    tokenizer = load_tokenizer(locate(encoder.encoder))
    pairs = encode_pairs(tokenizer, rated.references, rated.candidates, tuning.max_tokens)
    ratings = torch.tensor(rated.ratings)
    ours, bare = step_seconds(model, pairs, ratings, tuning.batch_pairs, tuning.schedule, steps)
    return {"step_seconds": ours, "bare_seconds": bare, "ratio": ours / bare}


def ways(scorer: "BleurtScorer", pairs: Sequence[tuple[str, str]]) -> dict[str, tuple[int, Callable[[], Any]]]:
    """Name of a way -> how many pairs it scores, and the function that scores them, with the weights of `scorer`."""
    import torch
    from transformers import pipeline

    from pipeline.core.models import quiet, usable_tokens

    model, tokenizer = scorer.model, scorer.tokenizer
    references, candidates = [pair[0] for pair in pairs], [pair[1] for pair in pairs]

    def padded(length: int, count: int) -> list[float]:
        options = {"padding": "max_length", "truncation": "longest_first", "max_length": length, "verbose": False}
        scores: list[float] = []
        for start in range(0, count, PADDED_BATCH):
            stop = min(start + PADDED_BATCH, count)
            inputs = tokenizer(references[start:stop], candidates[start:stop], return_tensors="pt", **options)
            with torch.inference_mode():
                scores += model(**inputs).logits[:, 0].tolist()
        return scores

    with quiet():
        classify = pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu")
    inputs = [{"text": reference, "text_pair": candidate} for reference, candidate in pairs]
    options = {"function_to_apply": "none", "truncation": True, "max_length": scorer.max_tokens}
    found: dict[str, tuple[int, Callable[[], Any]]] = {
        "ours": (len(pairs), lambda: scorer.score(references, candidates)),
        f"transformers' pipeline, batches of {PIPELINE_BATCH}": (
            len(pairs),
            lambda: classify(inputs, batch_size=PIPELINE_BATCH, **options),
        ),
    }
    longest = usable_tokens(model.config, tokenizer)
    for wanted, part in PADDED_PAIRS.items():
        length, count = min(wanted, longest), min(part, len(pairs))
        found[f"padding to {length}"] = count, functools.partial(padded, length, count)
    return found


def _interleaved(
    ways: dict[str, tuple[int, Callable[[], Any]]], sizes: "Sizes", rounds: int
) -> tuple[dict[str, float], float]:
    """Median seconds a pair of every way, and the median rate of matrix products in operations a second."""
    from pipeline.scoring.costs import product_rate

    spent: dict[str, list[float]] = {name: [] for name in ways}
    rates = []
    for _ in range(rounds):
        for name, (count, score) in ways.items():
            started = time.perf_counter()
            score()
            spent[name].append((time.perf_counter() - started) / count)
        rates.append(product_rate(sizes))
    return {name: statistics.median(seconds) for name, seconds in spent.items()}, statistics.median(rates)


def _lengths(scorer: "BleurtScorer", pairs: Sequence[tuple[str, str]]) -> list[int]:
    from pipeline.metric.pairs import encode_pairs

    references, candidates = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    lengths: list[int] = encode_pairs(scorer.tokenizer, references, candidates, scorer.max_tokens).lengths.tolist()
    return lengths


def _seconds_of(arguments: Sequence[str], threads: int) -> float:
    started = time.perf_counter()
    _child(arguments, threads)
    return time.perf_counter() - started


def _child(arguments: Sequence[str], threads: int) -> str:
    """Standard error of a Python process; a BleurtError if it fails."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BleurtError(f"{' '.join(arguments[:3])} failed: {done.stderr.strip()[-200:]}")
    return done.stderr


def _first_score(checkpoint: str, threads: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        file = _write(Path(folder) / "one.txt", ["The cat sat on the mat."])
        scoring = ["-m", "pipeline.scoring", "score", "-r", file, "-t", file, "--checkpoint", checkpoint]
        return _seconds_of([*scoring, "--device", "cpu"], threads)


def _memory(checkpoint: str, count: int, threads: int) -> int:
    """Largest resident set, in bytes, of a process that scores files of `count` distinct short pairs."""
    with tempfile.TemporaryDirectory() as folder:
        references = _write(Path(folder) / "references.txt", (f"The number is {i}." for i in range(count)))
        candidates = _write(Path(folder) / "candidates.txt", (f"Number {i}." for i in range(count)))
        scoring = ["score", "-r", references, "-t", candidates, "--checkpoint", checkpoint, "--device", "cpu"]
        written = _child(["-c", SCORING_CHILD, *scoring, "-scores_file", f"{folder}/scores.txt"], threads)
    return int(written.split()[-1])


def _write(file: Path, lines: Any) -> str:
    with file.open("w", encoding="utf-8") as out:
        out.writelines(f"{line}\n" for line in lines)
    return str(file)


def peak_bytes() -> int:
    """Largest resident set of this process, in bytes; on Linux the process that started it does not count."""
    status = Path("/proc/self/status")
    if not status.exists():
        return runtime.peak_memory_bytes()
    lines = status.read_text(encoding="ascii").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def render(found: dict[str, Any]) -> str:
    """The figures as lines."""
    lines = [
        f"{found['pairs']:,} distinct pairs, {found['threads']} threads, medians of {found['rounds']} rounds",
        f"{found['machine']}: {found['matrix_product_rate'] / 1e9:,.0f} billion operations a second in matrix products",
        f"ours: {found['pairs_a_second']:,.0f} pairs a second",
    ]
    lines += [f"ours is {ratio:.2f} times as fast as {name}" for name, ratio in found["times_faster"].items()]
    lines += [f"{name}: {change}" for name, change in found["moved"].items()]
    lines += [
        f"ours computes at {found['share_of_matrix_product_rate']:.0%} of that rate, padding not counted",
        f"start-up to the first score: {found['start_up_over_torch_seconds']:.1f} s over importing torch "
        f"({found['import_torch_seconds']:.1f} s)",
    ]
    if "peak_bytes" in found:
        peaks = [f"{bytes_ / 2**20:,.0f} MiB at {int(count):,} pairs" for count, bytes_ in found["peak_bytes"].items()]
        lines.append(f"memory: {', '.join(peaks)}")
    if "training" in found:
        cost = found["training"]
        lines.append(
            f"training step {cost['step_seconds']:.3f} s, bare forward and backward {cost['bare_seconds']:.3f} s, "
            f"ratio {cost['ratio']:.2f}"
        )
    return "\n".join([*lines, found["signature"]])
