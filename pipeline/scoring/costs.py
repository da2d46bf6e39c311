"""What scoring and training cost: operations of a pair, what this machine can do in a second, seconds of a step.

`bleurt bench` turns these into ratios that another machine can check. It also says what each option of speed is worth:
times over torch's plain kernels, and how far scores move.

A training step is measured in two ways over the same batches, in turns: as the training loop does it (batch, forward,
backward, clipping, Adam, learning rate), and as the model's bare forward and backward pass over as many tokens without
padding. For the bare pass, the tokens of the batch and those that follow are cut into rows of one length.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy
import torch
from transformers import PreTrainedModel

from pipeline.core import kernels, runtime
from pipeline.core.errors import ParamsError
from pipeline.finetune.learner import rating_loss
from pipeline.metric.pairs import EncodedPairs
from pipeline.metric.prediction import Replicas
from pipeline.scoring.scorer import BleurtScorer
from pipeline.statistics.correlation import kendall
from pipeline.training.loop import update
from pipeline.training.schedule import BatchPlan, Schedule, new_optimizer

PRODUCT_TOKENS = 4096
"""Rows of the matrices that are multiplied: tokens of a batch."""

PRODUCT_SECONDS = 0.5

PLAIN = "plain kernels"
"""Our scorer in single precision with the linear layers of torch, as before layers were packed."""

Way = tuple[int, Callable[[], Any]]


@dataclass(frozen=True)
class Sizes:
    """An encoder: its layers, the width of its hidden states and of its feed-forward layers."""

    layers: int
    hidden: int
    inner: int


def sizes_of(config: Any) -> Sizes:
    """Sizes of a sequence classifier of transformers, or of the encoder inside an AlignmentMetric.

    A ParamsError if there is not one encoder that reads pairs: RUSE, ESIM and Predictor-Estimator are no such models.
    """
    inside = config.encoder_config() if hasattr(config, "encoder_config") else config
    if not hasattr(inside, "intermediate_size"):
        raise ParamsError(f"bench counts the operations of an encoder that reads pairs; {config.model_type} has none.")
    return Sizes(inside.num_hidden_layers, inside.hidden_size, inside.intermediate_size)


def pair_operations(tokens: int, sizes: Sizes) -> int:
    """Multiplications and additions of the encoder's matrix products on a pair of `tokens` tokens.

    A layer multiplies each token with four matrices (hidden, hidden) and with two (hidden, inner). Attention multiplies
    each token with each other, twice. The head adds less than a hundredth, which is left out.

    >>> pair_operations(10, Sizes(layers=1, hidden=2, inner=8))
    1760
    """
    matrices = 2 * tokens * (4 * sizes.hidden**2 + 2 * sizes.hidden * sizes.inner)
    return sizes.layers * (matrices + 4 * tokens**2 * sizes.hidden)


def product_rate(sizes: Sizes, seconds: float = PRODUCT_SECONDS) -> float:
    """Operations a second in single precision by the faster of torch's own kernels, torch.matmul and oneDNN's on packed
    weights, on the encoder's shapes as often as a layer has them."""
    kernels = (_multiplied, _multiplied_packed) if torch._C._has_mkldnn else (_multiplied,)
    return max(_rate(kernel, sizes, seconds / len(kernels)) for kernel in kernels)


Product = Callable[[torch.Tensor, torch.Tensor], Callable[[], object]]
"""Makes a function that multiplies two matrices, of which the second is known long before."""


def _multiplied(left: torch.Tensor, right: torch.Tensor) -> Callable[[], object]:
    out = torch.empty(len(left), right.shape[1])
    return partial(torch.matmul, left, right, out=out)


def _multiplied_packed(left: torch.Tensor, right: torch.Tensor) -> Callable[[], object]:
    packed = torch.ops.mkldnn._reorder_linear_weight(right.t().contiguous(), len(left))
    return partial(torch.ops.mkldnn._linear_pointwise, left, packed, None, "none", [], "")


def _rate(kernel: Product, sizes: Sizes, seconds: float) -> float:
    times, work = 0.0, 0
    for count, width, height in (
        (4, sizes.hidden, sizes.hidden),
        (1, sizes.hidden, sizes.inner),
        (1, sizes.inner, sizes.hidden),
    ):
        product = kernel(torch.rand(PRODUCT_TOKENS, width), torch.rand(width, height))
        product()
        repeats, started = 0, time.perf_counter()
        while time.perf_counter() - started < seconds / 3:
            product()
            repeats += 1
        times += count * (time.perf_counter() - started) / repeats
        work += count * 2 * PRODUCT_TOKENS * width * height
    return work / times


def step_seconds(
    model: PreTrainedModel,
    pairs: EncodedPairs,
    ratings: torch.Tensor,
    batch_pairs: int,
    schedule: Schedule,
    steps: int,
) -> tuple[float, float]:
    """Median seconds of a training step, and of a bare forward and backward pass over as many tokens.

    `model` learns `ratings`, float32 (pairs, aspects), in `steps` batches of `batch_pairs` pairs.
    """
    device = runtime.device()
    plan = BatchPlan(pairs.lengths, batch_pairs, schedule.seed)
    optimizer = new_optimizer(model, schedule)
    model.train()

    def loss(model: torch.nn.Module, rows: list[int]) -> torch.Tensor:
        return rating_loss(model(**pairs.batch(rows, device)).logits, ratings[rows].to(device))

    ours, bare = list[float](), list[float]()
    for step in range(steps + 1):
        rows = plan.rows(step)
        inputs = {name: value.to(device) for name, value in level(pairs, rows).items()}
        ours.append(_seconds(partial(update, model, optimizer, loss, rows, schedule, step)))
        bare.append(_seconds(partial(_bare, model, inputs)))
    return statistics.median(ours[1:]), statistics.median(bare[1:])  # the first of each is slower


def level(pairs: EncodedPairs, rows: list[int]) -> dict[str, torch.Tensor]:
    """As many tokens as `rows` have, in as many rows of one length: half reference, half candidate, no padding."""
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


@dataclass(frozen=True)
class Moved:
    """How far an option's scores are from those of plain kernels.

    `mean` and `largest` distance of a pair. `kendall`: tau-b with the ratings minus that of plain kernels; None if all
    pairs have one rating.
    """

    mean: float
    largest: float
    kendall: float | None

    def __str__(self) -> str:
        """A line of `bleurt bench`."""
        change = "" if self.kendall is None else f", Kendall's tau by {self.kendall:+.4f}"
        return f"scores move by {self.mean:.1e} on average, {self.largest:.1e} at most{change}"


def option_ways(checkpoint: str, pairs: Sequence[tuple[str, str]]) -> dict[str, Way]:
    """Name of an option -> how many pairs it scores, and the function that scores them; only what this CPU can do."""
    references, candidates = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    able = {"bf16": kernels.has_bf16(), "int8": kernels.has_int8()}
    scorers = {PLAIN: _plain(checkpoint)}
    scorers |= {
        f"--precision {name}": BleurtScorer(checkpoint, device="cpu", precision=name) for name in able if able[name]
    }
    return {name: (len(pairs), _scoring(scorer, references, candidates)) for name, scorer in scorers.items()}


def _scoring(scorer: BleurtScorer, references: list[str], candidates: list[str]) -> Callable[[], list[float]]:
    return lambda: scorer.score(references, candidates)


def _plain(checkpoint: str) -> BleurtScorer:
    scorer = BleurtScorer(checkpoint, device="cpu", precision="float32")
    scorer._outputs = Replicas(scorer.model, ["cpu"], "float32").outputs
    return scorer


def moved(scores: Mapping[str, Sequence[float]], ratings: Sequence[float]) -> dict[str, Moved]:
    """How far the scores of each option are from those of PLAIN, pair by pair.

    >>> print(moved({"plain kernels": [0.0, 1.0, 2.0], "other": [0.0, 2.5, 2.0]}, [1.0, 2.0, 3.0])["other"])
    scores move by 5.0e-01 on average, 1.5e+00 at most, Kendall's tau by -0.6667
    """
    human, plain = numpy.asarray(ratings), numpy.asarray(scores[PLAIN])
    rated = len(set(ratings)) > 1
    found = {}
    for name in scores:
        mine = numpy.asarray(scores[name])
        change = kendall(human, mine) - kendall(human, plain) if rated else None
        apart = abs(mine - plain)
        found[name] = Moved(float(apart.mean()), float(apart.max()), change)
    return found
