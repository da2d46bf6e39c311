"""What does a training step cost over the bare forward and backward pass? `make bench` runs this too.

    python -m pipeline.scoring.cli.step_cost --ratings data/collect --threads 2

Two ways over the same batches, in turns: a step of the training loop (batch, forward, backward, clipping, Adam, rate),
and the model's forward and backward pass over as many tokens without padding: the text of the batch and what follows
it, cut into rows of one length. Medians, and their ratio.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy
import torch
from transformers import PreTrainedModel

from pipeline.core import runtime
from pipeline.core.models import load_tokenizer, locate
from pipeline.core.params import load_params
from pipeline.finetune.finetuning import rating_loss
from pipeline.finetune.lessons import FinetuneParams, read_rated
from pipeline.metric.checkpoint import new_metric
from pipeline.metric.pairs import EncodedPairs, encode_pairs
from pipeline.pretrain.pretraining import PretrainParams
from pipeline.training.loop import update
from pipeline.training.schedule import BatchPlan, new_optimizer


def main() -> None:
    """Parse the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--params", type=Path, default=Path("params.yaml"))
    parser.add_argument("--ratings", type=Path, required=True, help="folder that collect wrote")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=24, help="batches, each measured both ways")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    tuning = load_params(arguments.params, "finetune", FinetuneParams)
    encoder = load_params(arguments.params, "pretrain", PretrainParams)
    model = new_metric(encoder.encoder, encoder.head, tuning.aspects, tuning.dropout, tuning.schedule.seed)
    model.to(runtime.device())
    rated = read_rated(arguments.ratings, "train", tuning.aspects)
    tokenizer = load_tokenizer(locate(encoder.encoder))
    pairs = encode_pairs(tokenizer, rated.references, rated.candidates, tuning.max_tokens)
    ours, bare = measure(model, pairs, torch.tensor(rated.ratings), tuning, arguments.steps)
    print(f"training step {ours:.3f} s, bare forward and backward {bare:.3f} s, ratio {ours / bare:.2f}")


def measure(
    model: PreTrainedModel, pairs: EncodedPairs, ratings: torch.Tensor, params: FinetuneParams, steps: int
) -> tuple[float, float]:
    """Median seconds of a training step and of a bare forward and backward pass over as many tokens."""
    device = runtime.device()
    plan = BatchPlan(pairs.lengths, params.batch_pairs, params.schedule.seed)
    optimizer = new_optimizer(model, params.schedule)
    model.train()

    def loss(model: torch.nn.Module, rows: list[int]) -> torch.Tensor:
        return rating_loss(model(**pairs.batch(rows, device)).logits, ratings[rows].to(device))

    ours, bare = list[float](), list[float]()
    for step in range(steps + 1):
        rows = plan.rows(step)
        inputs = {name: value.to(device) for name, value in level(pairs, rows).items()}
        ours.append(_seconds(partial(update, model, optimizer, loss, rows, params.schedule, step)))
        bare.append(_seconds(partial(_bare, model, inputs)))
    return statistics.median(ours[1:]), statistics.median(bare[1:])  # what is computed first is slower


def level(pairs: EncodedPairs, rows: list[int]) -> dict[str, torch.Tensor]:
    """As many tokens as `rows` have, in as many rows of one length, half reference and half candidate; no padding."""
    width = round(float(pairs.lengths[rows].mean()))
    places = numpy.arange(pairs.starts[rows[0]], pairs.starts[rows[0]] + len(rows) * width)
    ids = torch.from_numpy(pairs.ids.take(places, mode="wrap").astype(numpy.int64)).view(len(rows), width)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if pairs.typed:
        inputs["token_type_ids"] = (torch.arange(width) >= width // 2).long().repeat(len(rows), 1)
    return inputs


def _bare(model: PreTrainedModel, inputs: dict[str, torch.Tensor]) -> None:
    with runtime.autocast(training=True):
        value = model(**inputs).logits.square().mean()
    torch.autograd.backward(value)
    model.zero_grad()


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    if runtime.device().startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
