"""The model on one device or on several: copies that share the batches of a chunk, one batch a copy at a time."""

import contextlib
import copy
import queue
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from pipeline.core.errors import ParamsError
from pipeline.metric.pairs import EncodedPairs

BATCH_TOKENS = {"cpu": 4096, "mps": 16384, "cuda": 65536}
"""Tokens of a batch, padding included: enough to keep the device busy, few enough for its caches. Speed only."""

PRECISIONS = ("auto", "float32", "bf16")


def check_device(name: str) -> str:
    """`name` where torch can use it here ("cpu", "cuda", "cuda:1", "mps"), else a ParamsError."""
    try:
        if torch.device(name).type not in BATCH_TOKENS:
            raise ParamsError(f"device: {name!r} is none of {', '.join(BATCH_TOKENS)}.")
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError, TypeError) as error:
        raise ParamsError(f"device: {name!r} is none that torch finds on this machine.") from error
    return name


def precision_on(device: str, wanted: str) -> str:
    """ "float32" or "bf16": as `wanted`, or for "auto" bf16 on a GPU that computes in it."""
    if wanted not in PRECISIONS:
        raise ParamsError(f"precision: must be one of {', '.join(PRECISIONS)}, not {wanted!r}.")
    if wanted != "auto":
        return wanted
    able = device.startswith("cuda") and torch.cuda.is_bf16_supported(including_emulation=False)
    return "bf16" if able else "float32"


class Replicas:
    """One copy of `model` on each of `devices`; several threads may compute at once, and wait for a free copy."""

    def __init__(self, model: PreTrainedModel, devices: Sequence[str], precision: str) -> None:
        self.model = model.to(devices[0])
        self._precision = precision
        self._copies = len(devices)
        self._free: queue.SimpleQueue[tuple[PreTrainedModel, str]] = queue.SimpleQueue()
        self._free.put((self.model, devices[0]))
        for device in devices[1:]:
            self._free.put((copy.deepcopy(model).to(device), device))

    def scores(self, pairs: EncodedPairs, batches: Sequence[Sequence[int]], output: int) -> NDArray[numpy.float32]:
        """Output number `output` of the model for the rows in `batches`: (pairs,), NaN in all other rows."""
        found = numpy.full(len(pairs), numpy.nan, dtype=numpy.float32)
        if self._copies == 1:
            computed = self._share(pairs, batches, output)
        else:
            with ThreadPoolExecutor(self._copies) as threads:
                shares = [threads.submit(self._share, pairs, [batch], output) for batch in batches]
                computed = [scored for share in shares for scored in share.result()]
        for batch, scored in zip(batches, computed, strict=True):
            found[list(batch)] = scored.cpu().numpy()
        return found

    def _share(self, pairs: EncodedPairs, batches: Sequence[Sequence[int]], output: int) -> list[torch.Tensor]:
        """Scores of every batch, still on the device, so that a GPU need not wait between batches."""
        model, device = self._free.get()
        try:
            with torch.inference_mode(), self._autocast(device):
                return [model(**pairs.batch(batch, device)).logits[:, output].float() for batch in batches]
        finally:
            self._free.put((model, device))

    def _autocast(self, device: str) -> contextlib.AbstractContextManager[Any]:
        if self._precision == "float32":
            return contextlib.nullcontext()
        return torch.autocast(device.split(":")[0], dtype=torch.bfloat16)
