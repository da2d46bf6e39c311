"""How a run learns: Adam with warm-up and linear decay, a rate for each layer, and dropout's seed of every step."""

from typing import Annotated, Any

import torch
from pydantic import Field

from pipeline.core.params import AtLeastOne, NotNegative, Positive, Share, params
from pipeline.core.seeds import generator


@params
class Schedule:
    """How long and how fast: `steps` updates, linear warm-up over `warmup_share` of them, then linear decay to zero.

    `layer_decay` multiplies the rate once for every layer below the top; 1.0 is the same rate everywhere. Gradients
    are cut to the norm `clip_norm`. Every `evaluate_every` steps the weights are scored, and every `save_every` steps
    the run is saved, so that it can go on after a kill.
    """

    steps: AtLeastOne
    learning_rate: Positive
    layer_decay: Annotated[float, Field(gt=0, le=1)]
    weight_decay: NotNegative
    warmup_share: Share
    clip_norm: Positive
    evaluate_every: AtLeastOne
    save_every: AtLeastOne
    seed: int

    def factor(self, step: int) -> float:
        """Multiplier of the learning rate at `step`, which counts from 0.

        Of 8 steps with a warm-up share of 0.25, two warm up, 0.5 and 1.0, and six fall from 6/7 to 1/7.
        """
        warmup = max(1, round(self.steps * self.warmup_share))
        return min((step + 1) / warmup, (self.steps - step) / max(1, self.steps - warmup + 1), 1.0)

    def dropout_seed(self, step: int, rank: int) -> int:
        """Seed of what torch draws at `step` in the process `rank` of torchrun: each process draws its own dropout."""
        if rank == 0:
            return self.seed * 1_000_003 + step
        return int(generator(self.seed, "dropout", step, rank).integers(2**63))


def new_optimizer(model: torch.nn.Module, schedule: Schedule) -> torch.optim.Optimizer:
    """AdamW over all weights of `model`; `pipeline.training.loop.update` sets its rates."""
    return torch.optim.AdamW(parameter_groups(model, schedule), fused=True)


def parameter_groups(model: torch.nn.Module, schedule: Schedule) -> list[dict[str, Any]]:
    """Weights in groups with a `rate` of their own (layer by layer); biases and normalisations do not decay."""
    depth = int(getattr(model.config, "num_hidden_layers", 0)) if hasattr(model, "config") else 0
    groups: dict[tuple[int, bool], dict[str, Any]] = {}
    for name, weight in model.named_parameters():
        layer = _layer_of(name, depth)
        decays = weight.ndim > 1
        group = groups.setdefault(
            (layer, decays),
            {
                "params": [],
                "rate": schedule.learning_rate * schedule.layer_decay ** (depth - layer),
                "weight_decay": schedule.weight_decay if decays else 0.0,
            },
        )
        group["params"].append(weight)
    return list(groups.values())


def _layer_of(name: str, depth: int) -> int:
    """0 for the embeddings, 1 for the lowest layer, `depth` for the highest layer and for everything above it."""
    parts = name.split(".")
    if "embeddings" in parts:
        return 0
    if "layer" in parts:
        return int(parts[parts.index("layer") + 1]) + 1
    return depth
