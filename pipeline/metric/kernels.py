"""Linear layers whose weights are laid out once for the processor's fastest kernel. They score and do nothing else.

`pack` replaces the linear layers of a model in place: there is no gradient, nothing to save, and the plain weights are
freed. Training, explaining and saving therefore keep models of their own.

- "float32": oneDNN's kernels, where they are faster than torch's usual ones (MKL). On AMD's AVX-512 processors they
  take half of the time, on others MKL may win, so the first scorer on a machine measures both, in a few hundredths of a
  second, and the answer is kept in FASTEST. Scores differ by rounding: less than 1e-5.
- "bf16": the encoder in bfloat16, where the processor has instructions for it. Pooler and last layer stay in single
  precision, as scores would come in steps of 0.004 else.
- "int8": weights in 8 bits with a scale for each output, activations in 8 bits with a scale for each token, measured as
  they come, so that scores do not depend on what shares a batch. All else, the attention too, is single precision.

GELU is computed by the same kernel as the layer before it. The kernels are those that torch.compile calls, so no
compiler is needed.
"""

import contextlib
import json
import platform
import time
from typing import Any

import torch
from transformers import PreTrainedModel

from pipeline.core.packages import store
from pipeline.core.shards import replacing
from pipeline.metric.checkpoint import ExactLinear

FASTEST = "kernels.json"
"""Processor and version of torch -> "onednn" or "torch"; in the folder that also keeps joined models."""

MEASURED = (256, 768, 768)
"""Tokens, features and outputs of the product that is measured."""

ROUNDS = 5
GELU = {"gelu": "none", "gelu_pytorch_tanh": "tanh"}
"""transformers' name of a form of GELU -> oneDNN's and torch's."""

ROWS = 4096
"""Tokens of a batch that packed weights are laid out for; any other number computes as well."""

WEIGHT_LEVELS, TOKEN_LEVELS = 127, 255
"""A weight is one of -127 to 127 times its output's scale; a feature is its token's least one plus 0 to 255 steps."""

SMALLEST = 1e-12


def has_bf16() -> bool:
    """Whether this processor computes in bfloat16 (AVX512-BF16 or AMX)."""
    found = torch.cpu.get_capabilities()
    return bool(found.get("avx512_bf16") or found.get("amx_bf16"))


def has_int8() -> bool:
    """Whether this processor adds up products of 8 bits without overflow (VNNI or AMX), and torch can use that."""
    found = torch.cpu.get_capabilities()
    able = found.get("avx512_vnni") or found.get("avx_vnni") or found.get("amx_int8")
    return bool(able and torch.backends.mkldnn.is_available())


def pack(model: PreTrainedModel, precision: str) -> bool:
    """Replace the linear layers of `model`, which is on the CPU, in place; False if plain layers serve as well.

    `precision`: "float32", "bf16" or "int8".
    """
    if not torch.backends.mkldnn.is_available() or (precision == "bf16" and not has_bf16()):
        return False
    if precision == "float32" and not packing_pays():
        return False
    if precision != "float32":
        _keep_head_exact(model)
    if precision == "bf16":
        _to_bf16(model.base_model)
    _fuse_activations(model, precision)
    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            if type(layer) is torch.nn.Linear:
                setattr(parent, name, _packed(layer, precision))
    return True


def _packed(layer: torch.nn.Linear, precision: str, gelu: str | None = None) -> torch.nn.Module:
    return Int8Linear(layer, gelu) if precision == "int8" else PackedLinear(layer, gelu)


def _keep_head_exact(model: PreTrainedModel) -> None:
    """What computes the score from the encoder's hidden states, the pooler among it, stays in single precision."""
    inside = set(model.base_model.modules()) - set(_pooler(model.base_model))
    for layer in model.modules():
        if type(layer) is torch.nn.Linear and layer not in inside:
            layer.__class__ = ExactLinear


def _pooler(encoder: torch.nn.Module) -> list[torch.nn.Module]:
    pooler = getattr(encoder, "pooler", None)
    return [] if pooler is None else list(pooler.modules())


def _to_bf16(encoder: torch.nn.Module) -> None:
    pooler = _pooler(encoder)
    for module in encoder.modules():
        if module not in pooler:
            module._apply(lambda tensor: tensor.bfloat16() if tensor.is_floating_point() else tensor, recurse=False)


def _fuse_activations(model: PreTrainedModel, precision: str) -> None:
    """The first layer of each feed-forward block computes its GELU, where the block is like BERT's."""
    form = GELU.get(getattr(model.base_model.config, "hidden_act", ""))
    for block in model.modules():
        dense = getattr(block, "dense", None)
        if form is not None and hasattr(block, "intermediate_act_fn") and type(dense) is torch.nn.Linear:
            block.dense, block.intermediate_act_fn = _packed(dense, precision, form), torch.nn.Identity()


class _Packed(torch.nn.Module):
    """A layer that never changes, so copies of a model share it."""

    def __deepcopy__(self, memo: Any) -> "_Packed":
        return self


class PackedLinear(_Packed):
    """A linear layer through oneDNN, in its weights' precision; with `gelu` ("none" or "tanh") GELU of the outputs."""

    def __init__(self, layer: torch.nn.Linear, gelu: str | None = None) -> None:
        super().__init__()
        with torch.inference_mode():
            self._weights = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach(), ROWS)
            self._bias = None if layer.bias is None else layer.bias.detach().clone()
        self._activation = ("none", "") if gelu is None else ("gelu", gelu)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        """Outputs (..., outputs) of features (..., features)."""
        name, form = self._activation
        computed: torch.Tensor = torch.ops.mkldnn._linear_pointwise(given, self._weights, self._bias, name, [], form)
        return computed


class Int8Linear(_Packed):
    """A linear layer whose products are of 8 bits; inputs and outputs are float32. `gelu` as above.

    A feature becomes low + step * q with q from 0 to 255, so an output is step * (q @ weights) + low * sum(weights).
    The sums of products are exact, so an output depends on nothing but its own token.
    """

    def __init__(self, layer: torch.nn.Linear, gelu: str | None = None) -> None:
        super().__init__()
        weight = layer.weight.detach().float()
        self._scales = weight.abs().amax(1).clamp(min=SMALLEST) / WEIGHT_LEVELS
        rounded = (weight / self._scales.unsqueeze(1)).round()
        bias = torch.zeros(len(rounded)) if layer.bias is None else layer.bias.detach()
        self._added = torch.stack([rounded.sum(1) * self._scales, bias])
        self._weights = torch.ops.onednn.qlinear_prepack(rounded.to(torch.int8), None)
        self._zeros = torch.zeros(len(rounded), dtype=torch.int64)
        self._gelu = gelu

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        """Outputs (..., outputs) of features (..., features)."""
        rows = given.reshape(-1, given.shape[-1])
        low = rows.amin(1, keepdim=True)
        step = (rows.amax(1, keepdim=True) - low).clamp_(min=SMALLEST) / TOKEN_LEVELS
        levels = (rows - low).div_(step).add_(0.5).to(torch.uint8)  # what is after the point is dropped
        sums = torch.ops.onednn.qlinear_pointwise(
            levels, 1.0, 0, self._weights, self._scales, self._zeros, None, 1.0, 0, torch.float32, "none", [], ""
        )
        outputs: torch.Tensor = sums.mul_(step).addmm_(torch.cat([low, torch.ones_like(low)], 1), self._added)
        if self._gelu is not None:
            outputs = torch.nn.functional.gelu(outputs, approximate=self._gelu)
        return outputs.view(*given.shape[:-1], -1)


def packing_pays() -> bool:
    """Whether oneDNN on packed weights is faster here than torch's usual kernel, in single precision.

    Measured once for each processor and version of torch; the answer is kept, so that a machine does not waver.
    """
    file, machine = store().parent / FASTEST, _machine()
    known: dict[str, str] = {}
    with contextlib.suppress(OSError, ValueError):
        known = dict(json.loads(file.read_text(encoding="utf-8")))
    if machine not in known:
        known[machine] = _measured()
        with contextlib.suppress(OSError):  # measured again next time
            file.parent.mkdir(parents=True, exist_ok=True)
            with replacing(file) as temporary:
                temporary.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    return known[machine] == "onednn"


def _machine() -> str:
    """This processor, its sets of instructions and torch's version."""
    found = torch.cpu.get_capabilities()
    sets = [name for name in ("avx2", "avx512_f", "avx512_bf16", "amx_bf16") if found.get(name)]
    return ", ".join([str(found.get("cpu_name") or platform.machine()), *sets, f"torch {torch.__version__}"])


def _measured() -> str:
    """The kernel whose fastest of ROUNDS products, in turns, took one thread the least time, whatever else computes."""
    tokens, features, outputs = MEASURED
    given = torch.linspace(-1, 1, tokens * features).view(tokens, features)
    layer = torch.nn.Linear(features, outputs)
    ways: dict[str, torch.nn.Module] = {"torch": layer, "onednn": PackedLinear(layer)}
    spent = dict.fromkeys(ways, float("inf"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.inference_mode():
            for _ in range(ROUNDS):
                for name, way in ways.items():
                    started = time.thread_time()
                    way(given)
                    spent[name] = min(spent[name], time.thread_time() - started)
    finally:
        torch.set_num_threads(threads)
    return min(spent, key=lambda name: spent[name])
