"""Low-rank adapters (LoRA; Hu et al. 2021): a large encoder learns with a hundredth of its weights.

Beside every linear layer of the encoder stand two thin matrices, whose product is added to the layer's weights. Only
they and the head learn. That saves a third of a step's arithmetic and most of the optimizer's memory. The library peft
puts the matrices in.
"""

import torch
from transformers import PreTrainedModel

from pipeline.core.errors import ParamsError

ALPHA = 16
"""The product counts ALPHA / rank times, so that one learning rate serves several ranks."""


def adapted(model: PreTrainedModel, rank: int | None, seed: int) -> None:
    """Put adapters of `rank` into the encoder of `model`; None leaves it as it is. `seed` draws the first matrices.

    The model computes what it computed before, as every product starts at zero. A ParamsError if peft is missing.
    """
    if rank is None:
        return
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError as error:
        raise ParamsError("adapter: needs the package peft (pip install 'bleurt-pipeline[base]').") from error
    encoder = model.base_model
    layers = [name for name, layer in encoder.named_modules() if isinstance(layer, torch.nn.Linear)]
    layers = [name for name in layers if not name.startswith("pooler")]
    torch.manual_seed(seed)
    head = [weight for name, weight in model.named_parameters() if name.startswith(("pooler", "classifier"))]
    inject_adapter_in_model(LoraConfig(r=rank, lora_alpha=ALPHA, target_modules=layers), encoder)
    for name, weight in encoder.named_parameters():
        weight.requires_grad_("lora_" in name or "pooler" in name.split("."))
    for weight in head:
        weight.requires_grad_(True)


def merged(model: PreTrainedModel) -> None:
    """Add what the adapters of `model` have learned to the weights beside them, and take the adapters out."""
    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            if hasattr(layer, "get_base_layer"):
                layer.merge()
                setattr(parent, name, layer.get_base_layer())
    for weight in model.parameters():
        weight.requires_grad_(True)
