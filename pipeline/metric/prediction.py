"""What a checkpoint predicts for many pairs: the only way in which stages, `bleurt` and notebooks predict.

Pairs are computed in batches of similar length under a budget of tokens, on one device or on several. `predict` takes a
folder and texts. `outputs` and `head_inputs` take a model and pairs in tokens. `Replicas` is for callers that predict
again and again, such as a scorer that reads its input in chunks.
"""

import contextlib
import copy
import queue
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from pipeline.core.batches import token_batches
from pipeline.core.errors import ParamsError
from pipeline.core.kernels import has_int8
from pipeline.core.models import check_max_tokens, load_tokenizer, usable_tokens
from pipeline.core.originals import pair_tokens
from pipeline.metric import kernels
from pipeline.metric.checkpoint import head_of, load_metric
from pipeline.metric.pairs import EncodedPairs, encode_pairs

MAX_TOKENS = 128
"""Tokens of a pair that are read by default: what the bundled metric was trained on."""

BATCH_TOKENS = {"cpu": 4096, "mps": 16384, "cuda": 65536}
"""Tokens of a batch, padding included: enough to keep the device busy, few enough for its caches. Speed only."""

PRECISIONS = ("auto", "float32", "bf16", "int8")

SHARE_BATCHES = 64
"""Batches that a single device computes before their values are fetched, so that a GPU seldom waits. Speed only."""

Inputs = dict[str, torch.Tensor]
Compute = Callable[[PreTrainedModel, Inputs], torch.Tensor]
"""Computes a tensor for one batch, with a row for each pair."""


def check_device(name: str) -> str:
    """`name` if torch can use it here ("cpu", "cuda", "cuda:1", "mps"), else a ParamsError."""
    try:
        if torch.device(name).type not in BATCH_TOKENS:
            raise ParamsError(f"device: {name!r} must be one of {', '.join(BATCH_TOKENS)}.")
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError, TypeError) as error:
        raise ParamsError(f"device: {name!r} is not a device that torch finds on this machine.") from error
    return name


def precision_on(device: str, wanted: str) -> str:
    """ "float32", "bf16" or "int8": what is `wanted`; "auto" is bf16 on a GPU that computes in it, else float32.

    On a CPU "auto" is always float32, so that scores do not depend on what shares their batch. int8 is for CPUs with
    the instructions for it, elsewhere a ParamsError.
    """
    if wanted not in PRECISIONS:
        raise ParamsError(f"precision: must be one of {', '.join(PRECISIONS)}, not {wanted!r}.")
    if wanted == "int8" and not (device.startswith("cpu") and has_int8()):
        raise ParamsError(f"precision: int8 needs a CPU with VNNI or AMX; on {device!r} take float32 or bf16.")
    if wanted != "auto":
        return wanted
    able = device.startswith("cuda") and torch.cuda.is_bf16_supported(including_emulation=False)
    return "bf16" if able else "float32"


def readable_tokens(config: Any, tokenizer: Any, wanted: int | None, key: str) -> int:
    """How many tokens of a pair are read: `wanted`; if it is None, MAX_TOKENS, or fewer if the model takes fewer.

    An original BLEURT reads as many as its own configuration says (`pipeline.core.originals`).

    A number that the model cannot read is a ParamsError that names `key`.
    """
    tokens = wanted or min(pair_tokens(config) or MAX_TOKENS, usable_tokens(config, tokenizer))
    check_max_tokens(key, tokens, config, tokenizer)
    return tokens


class Replicas:
    """A model on one device, or a copy of it on each of several `devices`; by default where the model is.

    Several threads may compute at once. Each waits for a copy that is free. `owned`: nobody else uses `model`, so on
    CPUs its layers may become faster ones that cannot learn (`pipeline.metric.kernels`); `packed` says whether they
    did. int8 needs that.
    """

    def __init__(
        self, model: PreTrainedModel, devices: Sequence[str] = (), precision: str = "auto", *, owned: bool = False
    ) -> None:
        devices = devices or [str(next(model.parameters()).device)]
        self.precision = precision_on(devices[0], precision)
        assert owned or self.precision != "int8"
        self.model = model.to(devices[0])
        on_cpu = all(device.startswith("cpu") for device in devices)
        self.packed = owned and on_cpu and kernels.pack(self.model, self.precision)
        self._count = len(devices)
        self._free: queue.SimpleQueue[tuple[PreTrainedModel, str]] = queue.SimpleQueue()
        self._free.put((self.model, devices[0]))
        for device in devices[1:]:
            self._free.put((copy.deepcopy(model).to(device), device))

    def outputs(
        self,
        pairs: EncodedPairs,
        batch_tokens: int,
        rows: NDArray[numpy.int64] | None = None,
        batch_pairs: int | None = None,
    ) -> NDArray[numpy.float32]:
        """The model's outputs: float32 (pairs, outputs), in the order of `pairs`.

        Only `rows` are computed, if they are given; all other rows are NaN. A batch has at most `batch_tokens` tokens,
        padding included, and at most `batch_pairs` pairs.
        """
        return self._gathered(_logits, pairs, batches_of(pairs, batch_tokens, rows, batch_pairs))

    def batch_outputs(self, batch: EncodedPairs) -> NDArray[numpy.float32]:
        """The model's outputs of pairs that are one batch: float32 (pairs, outputs)."""
        return self._share(_logits, batch, [range(len(batch))])[0]

    def head_inputs(self, pairs: EncodedPairs, batch_tokens: int) -> NDArray[numpy.float32]:
        """What the last layer reads of every pair: float32 (pairs, features), in the order of `pairs`."""
        return self._gathered(_head_inputs, pairs, batches_of(pairs, batch_tokens))

    def _gathered(
        self, compute: Compute, pairs: EncodedPairs, batches: Sequence[Sequence[int]]
    ) -> NDArray[numpy.float32]:
        """`compute` of every batch, each row in its place."""
        if self._count == 1:
            shares = [batches[i : i + SHARE_BATCHES] for i in range(0, len(batches), SHARE_BATCHES)]
            return in_place(len(pairs), batches, (self._share(compute, pairs, share) for share in shares))
        with ThreadPoolExecutor(self._count) as threads:
            computed = threads.map(lambda batch: self._share(compute, pairs, [batch]), batches)
            return in_place(len(pairs), batches, computed)

    def _share(
        self, compute: Compute, pairs: EncodedPairs, batches: Sequence[Sequence[int]]
    ) -> list[NDArray[numpy.float32]]:
        """`compute` of some batches on one copy; all are started before any result is fetched from the device."""
        model, device = self._free.get()
        try:
            with torch.inference_mode(), self._autocast(device):
                values = [compute(model, pairs.batch(batch, device)).float() for batch in batches]
            return [value.cpu().numpy() for value in values]
        finally:
            self._free.put((model, device))

    def _autocast(self, device: str) -> contextlib.AbstractContextManager[Any]:
        if self.packed or self.precision == "float32":
            return contextlib.nullcontext()
        return torch.autocast(device.split(":")[0], dtype=torch.bfloat16)


def batches_of(
    pairs: EncodedPairs, batch_tokens: int, rows: NDArray[numpy.int64] | None = None, batch_pairs: int | None = None
) -> list[list[int]]:
    """`rows` of `pairs`, or all, in batches: longest pairs first."""
    chosen = numpy.arange(len(pairs)) if rows is None else rows
    batches = [chosen[batch].tolist() for batch in token_batches(pairs.lengths[chosen].tolist(), batch_tokens)]
    if batch_pairs is None:
        return batches
    return [batch[i : i + batch_pairs] for batch in batches for i in range(0, len(batch), batch_pairs)]


def in_place(
    count: int, batches: Sequence[Sequence[int]], shares: Iterable[Sequence[NDArray[numpy.float32]]]
) -> NDArray[numpy.float32]:
    """The values of `batches`, which come in `shares`, as one array (count, values); NaN if no batch has the row."""
    found = numpy.full((count, 1), numpy.nan, dtype=numpy.float32)
    values = (value for share in shares for value in share)
    for number, (batch, value) in enumerate(zip(batches, values, strict=True)):
        if number == 0:
            found = numpy.full((count, value.shape[1]), numpy.nan, dtype=numpy.float32)
        found[batch] = value
    return found


def _logits(model: PreTrainedModel, inputs: Inputs) -> torch.Tensor:
    logits: torch.Tensor = model(**inputs).logits
    return logits


def _head_inputs(model: PreTrainedModel, inputs: Inputs) -> torch.Tensor:
    """What the last layer reads of a batch: (rows, features), on the CPU, because features soon fill a GPU."""
    read: list[torch.Tensor] = []
    hook = head_of(model).register_forward_pre_hook(lambda _, given: read.append(given[0]))
    try:
        model(**inputs)
    finally:
        hook.remove()
    return read[0].cpu()


def outputs(
    model: PreTrainedModel, pairs: EncodedPairs, batch_tokens: int, precision: str = "auto"
) -> NDArray[numpy.float32]:
    """The outputs of `model`, where it is: float32 (pairs, outputs), in the order of `pairs`."""
    return Replicas(model, precision=precision).outputs(pairs, batch_tokens)


def head_inputs(model: PreTrainedModel, pairs: EncodedPairs, batch_tokens: int) -> NDArray[numpy.float32]:
    """What the last layer of `model` reads of every pair: float32 (pairs, features), in the order of `pairs`."""
    return Replicas(model).head_inputs(pairs, batch_tokens)


def predict(
    folder: Path,
    references: Sequence[str],
    candidates: Sequence[str],
    max_tokens: int,
    batch_tokens: int,
    precision: str = "auto",
) -> NDArray[numpy.float32]:
    """Scores of the fine-tuned checkpoint in `folder`: float32 (pairs, outputs); higher is better.

    Texts are read as they are. A pair of more than `max_tokens` tokens loses the end of its longer side. `precision`:
    as `precision_on` reads it.
    """
    model, tokenizer = load_metric(folder), load_tokenizer(folder)
    check_max_tokens("evaluate.max_tokens", max_tokens, model.config, tokenizer)
    pairs = encode_pairs(tokenizer, references, candidates, max_tokens)
    return Replicas(model, precision=precision, owned=True).outputs(pairs, batch_tokens)
