"""Linear layers whose weights are laid out once for the processor's fastest kernel. They score and do nothing else.

`pack` replaces the linear layers of a model in place: there is no gradient, nothing to save, and the plain weights are
freed. Training, explaining and saving therefore keep models of their own.

- "float32": oneDNN's kernels, where they are faster than torch's usual ones (`pipeline.core.kernels.library`). Scores
  differ by rounding: less than 1e-5.
- "bf16": the encoder in bfloat16, where the processor has instructions for it. Pooler and last layer stay in single
  precision, as scores would come in steps of 0.004 else.
- "int8": weights in 8 bits with a scale for each output, activations in 8 bits with a scale for each token, measured as
  they come, so that scores do not depend on what shares a batch. All else, the attention too, is single precision.

GELU is computed by the same kernel as the layer before it. The kernels are those that torch.compile calls, so no
compiler is needed.
"""

from typing import Any

import torch
from transformers import PreTrainedModel

from pipeline.core.kernels import PackedLinear, has_bf16, library, replace_linear_layers
from pipeline.metric.checkpoint import ExactLinear

GELU = {"gelu": "none", "gelu_pytorch_tanh": "tanh"}
"""transformers' name of a form of GELU -> oneDNN's and torch's."""

WEIGHT_LEVELS, TOKEN_LEVELS = 127, 255
"""A weight is one of -127 to 127 times its output's scale; a feature is its token's least one plus 0 to 255 steps."""

SMALLEST = 1e-12


def pack(model: PreTrainedModel, precision: str) -> bool:
    """Replace the linear layers of `model`, which is on the CPU, in place; False if plain layers serve as well.

    `precision`: "float32", "bf16" or "int8".
    """
    if not torch._C._has_mkldnn or (precision == "bf16" and not has_bf16()):
        return False
    if precision == "float32" and library() != "onednn":
        return False
    if precision != "float32":
        _keep_head_exact(model)
    if precision == "bf16":
        _to_bf16(model.base_model)
    _fuse_activations(model, precision)
    replace_linear_layers(model, lambda layer: _packed(layer, precision))
    return True


def _packed(layer: torch.nn.Linear, precision: str, gelu: str | None = None) -> torch.nn.Module:
    return Int8Linear(layer, gelu) if precision == "int8" else PackedLinear(layer, layer.weight.dtype, gelu)


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
            module._apply(_rounded, recurse=False)  # type: ignore[no-untyped-call]


def _rounded(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.bfloat16() if tensor.is_floating_point() else tensor


def _fuse_activations(model: PreTrainedModel, precision: str) -> None:
    """The first layer of each feed-forward block computes its GELU, where the block is like BERT's."""
    form = GELU.get(getattr(getattr(model.base_model, "config", None), "hidden_act", ""))
    for block in model.modules():
        dense = getattr(block, "dense", None)
        if form is not None and hasattr(block, "intermediate_act_fn") and type(dense) is torch.nn.Linear:
            block.dense, block.intermediate_act_fn = _packed(dense, precision, form), torch.nn.Identity()


class Int8Linear(torch.nn.Module):
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

    def __deepcopy__(self, memo: Any) -> "Int8Linear":
        """The layer itself: it never changes, so copies of a model share it."""
        return self
