"""Linear layers on a CPU through the quicker of the two libraries that torch carries for products of matrices.

torch sends a linear layer in float32 to MKL. MKL keeps its widest instructions (AVX-512) for Intel's processors; oneDNN
uses what it finds: on an AMD EPYC of the fourth generation (Zen 4) 5 to 15% more products a second. An older one has
none to keep back, and MKL is the quicker there (Zen 3: a step of training takes three quarters of oneDNN's time). On
Intel's processors both are made by the same company, and MKL stays unless oneDNN is clearly quicker in a measurement.
Sums are taken in another order, so the last digits of float32 differ.

`packed` prepares a model for inference: weights are laid out for oneDNN once (`pipeline.metric.kernels` packs the
metric). `linear_layers` is for training, where the weights change: forward and backward go through oneDNN, which lays
them out at every call.

BLEURT_KERNELS  "onednn" or "mkl": the library, instead of the choice made here
"""

import contextlib
import functools
import json
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from pipeline.core.errors import ParamsError
from pipeline.core.packages import store
from pipeline.core.shards import replacing

LIBRARIES = ("mkl", "onednn")

CPU_TOKENS = 1024
"""Tokens of a forward pass on a CPU: what a layer makes of more falls out of the caches. Changes speed only.

One core of a Zen 4, MiniLM, CPU time of BERTScore on 200 pairs: 1.64 s with 1,024 tokens, 2.15 with 4,096, 2.6 with
8,192."""

FASTEST = "kernels.json"
"""Processor and version of torch -> one of LIBRARIES; in the folder that also keeps joined models."""

MEASURED = (256, 384, 1536)
"""Tokens, features and outputs of the layer that is measured."""

ROUNDS = 6

CLEARLY = 1.25
"""oneDNN must be so many times as fast as MKL to be chosen on a processor that is not AMD's.

Both are equally fast on most of these; the choice must be the same in every run, since it moves last digits."""


def library() -> str:
    """ "onednn" or "mkl": what computes linear layers in float32 on this machine's CPU.

    BLEURT_KERNELS names it; anything else there is a ParamsError. Else AMD's processors with AVX-512 get oneDNN and
    those without it MKL; others what won a measurement of a few hundredths of a second, made once and kept in FASTEST.
    """
    wanted = os.environ.get("BLEURT_KERNELS", "")
    if not wanted:
        return _quicker()
    if wanted not in LIBRARIES:
        raise ParamsError(f"BLEURT_KERNELS must be {' or '.join(LIBRARIES)}, not {wanted!r}.")
    return wanted


@functools.cache
def _quicker() -> str:
    """By AMD's processors' instructions; for others by a measurement, one for each processor and version of torch."""
    if not (torch._C._has_mkldnn and torch._C.has_mkl):
        return "mkl"  # torch's own choice
    if _vendor() == "AuthenticAMD":
        return "onednn" if torch.cpu.get_capabilities().get("avx512_f") else "mkl"
    file, machine = store().parent / FASTEST, _machine()
    known: dict[str, str] = {}
    with contextlib.suppress(OSError, ValueError):
        known = dict(json.loads(file.read_text(encoding="utf-8")))
    if known.get(machine) not in LIBRARIES:
        known[machine] = _measured()
        with contextlib.suppress(OSError):  # measured again next time
            file.parent.mkdir(parents=True, exist_ok=True)
            with replacing(file) as temporary:
                temporary.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    return known[machine]


def _machine() -> str:
    """This processor, its sets of instructions and torch's version."""
    found = torch.cpu.get_capabilities()
    sets = [name for name in ("avx2", "avx512_f", "avx512_bf16", "amx_bf16") if found.get(name)]
    return ", ".join([str(found.get("cpu_name") or platform.machine()), *sets, f"torch {torch.__version__}"])


def _measured() -> str:
    """What computes a layer in the least time of one thread, whatever else the machine does."""
    tokens, features, outputs = MEASURED
    given = torch.linspace(-1, 1, tokens * features).view(tokens, features)
    layer = torch.nn.Linear(features, outputs)
    ways: dict[str, torch.nn.Module] = {"mkl": layer, "onednn": PackedLinear(layer, torch.float32)}
    spent = dict.fromkeys(ways, float("inf"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.inference_mode():
            for _ in range(ROUNDS):
                for name, way in ways.items():
                    spent[name] = min(spent[name], _seconds(functools.partial(way, given)))
    finally:
        torch.set_num_threads(threads)
    return "onednn" if spent["mkl"] > CLEARLY * spent["onednn"] else "mkl"


def _seconds(way: Callable[[], Any]) -> float:
    started = time.thread_time()
    way()
    return time.thread_time() - started


def has_bf16() -> bool:
    """Whether this processor computes in bfloat16 (AVX512-BF16 or AMX)."""
    found = torch.cpu.get_capabilities()
    return bool(found.get("avx512_bf16") or found.get("amx_bf16"))


def has_int8() -> bool:
    """Whether this processor adds up products of 8 bits without overflow (VNNI or AMX), and torch can use that."""
    found = torch.cpu.get_capabilities()
    able = found.get("avx512_vnni") or found.get("avx_vnni") or found.get("amx_int8")
    return bool(able and torch._C._has_mkldnn)


def _vendor() -> str:
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as lines:
            return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("vendor_id")), "")
    except OSError:  # another system
        return ""


def _product(
    rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, gelu: str | None = None
) -> torch.Tensor:
    """`rows` (…, I) times the transpose of `weight` (O, I), plus `bias` (O,), by oneDNN: (…, O); or GELU of that."""
    name, form = ("none", "") if gelu is None else ("gelu", gelu)
    found: torch.Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, name, [], form)
    return found


class PackedLinear(torch.nn.Module):
    """A linear layer for inference only, in `dtype`; on a CPU its weight lies as oneDNN likes to read it.

    With `gelu`, "none" or "tanh", the same kernel computes this form of GELU of the outputs. bf16 rounds weights and
    inputs to bf16, adds up in float32 and rounds the outputs; float32 rounds nothing. Other devices, and processors for
    which oneDNN has no bf16, compute the same through torch's own linear layer.
    """

    weight: torch.Tensor
    bias: torch.Tensor | None

    def __init__(self, layer: torch.nn.Linear, dtype: torch.dtype, gelu: str | None = None) -> None:
        super().__init__()
        self.dtype, self.gelu = dtype, gelu
        weight, bias = layer.weight.detach().to(dtype), None if layer.bias is None else layer.bias.detach().to(dtype)
        self.laid_out = weight.device.type == "cpu" and (
            dtype is torch.float32 or torch.ops.mkldnn._is_mkldnn_bf16_supported()
        )
        if self.laid_out:
            weight = torch.ops.mkldnn._reorder_linear_weight(weight, CPU_TOKENS)
        self.register_buffer("weight", weight, persistent=False)
        self.register_buffer("bias", bias, persistent=False)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """(…, inputs) -> (…, outputs), in the layer's `dtype`."""
        if self.laid_out:
            return _product(rows.to(self.dtype), self.weight, self.bias, self.gelu)
        outputs = torch.nn.functional.linear(rows.to(self.dtype), self.weight, self.bias)
        return outputs if self.gelu is None else torch.nn.functional.gelu(outputs, approximate=self.gelu)

    def __deepcopy__(self, memo: Any) -> "PackedLinear":
        """The layer itself: it never changes, so copies of a model share it."""
        return self


def packed(model: Any, precision: str = "float32") -> Any:
    """`model`, changed in place: its linear layers compute in `precision` through the quickest library of its device.

    `precision` is "float32", or "bf16": about 1.7 times as fast on CPUs with AVX512-BF16, and what lies between the
    linear layers stays in float32. The model can only be read from then on: no training, no saving.
    """
    assert precision in ("float32", "bf16"), precision
    on_cpu = next(model.parameters()).device.type == "cpu"
    if precision == "float32" and not (on_cpu and library() == "onednn"):
        return model
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    replace_linear_layers(model, lambda layer: PackedLinear(layer, dtype))
    return model


def replace_linear_layers(model: torch.nn.Module, new: Callable[[torch.nn.Linear], torch.nn.Module]) -> None:
    """Put `new(layer)` in the place of every linear layer of `model`; subclasses of `Linear` stay."""
    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            if type(layer) is torch.nn.Linear:
                setattr(parent, name, new(layer))


class _Product(torch.autograd.Function):
    """`torch.nn.functional.linear` and its gradients, each a product by oneDNN."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        ctx.save_for_backward(rows, weight)
        ctx.biased = bias is not None
        return _product(rows, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        rows, weight = ctx.saved_tensors
        above = gradients[0].reshape(-1, weight.shape[0])  # N, O
        below = changes = shift = None
        if ctx.needs_input_grad[0]:
            below = _product(above, weight.t()).view(rows.shape)
        if ctx.needs_input_grad[1]:
            changes = _product(above.t(), rows.reshape(-1, weight.shape[1]).t())
        if ctx.biased and ctx.needs_input_grad[2]:
            shift = above.sum(0)
        return below, changes, shift


class _Linear(TorchFunctionMode):
    """Sends every linear layer of float32 tensors on a CPU to `_Product`."""

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func is torch.nn.functional.linear and not kwargs and _suit(args):
            rows, weight, bias = (*args, None)[:3]
            return _Product.apply(rows, weight, bias)  # type: ignore[no-untyped-call]
        return func(*args, **(kwargs or {}))


def _suit(tensors: Sequence[Any]) -> bool:
    plain = all(one is None or (one.device.type, one.dtype) == ("cpu", torch.float32) for one in tensors)
    return plain and tensors[0].dim() > 1 and tensors[0].numel() > 0 and not torch.is_autocast_enabled("cpu")


def linear_layers() -> contextlib.AbstractContextManager[Any]:
    """Inside, linear layers in float32 on the CPU, and their gradients, are computed by `library()`.

    Layers in another precision or on another device stay as they are, and so do all under autocast.
    """
    return contextlib.nullcontext() if library() == "mkl" or torch.is_autocast_enabled("cpu") else _Linear()
