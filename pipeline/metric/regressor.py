"""RUSE and the BERT regressor: sentence vectors, and a perceptron that predicts the rating (004, sections 3.1 and 3.2).

- `inputs: apart` is RUSE. Every encoder makes a vector of the reference, r, and one of the candidate, c, and the
  perceptron reads [r; c; |r - c|; r * c], each over the vectors of all encoders. The vector is the mean of the last
  layer's states over a text's tokens, or what its first token has. 004 takes InferSent, Quick Thought and Google's
  encoder, or BERT; here any encoders will do, by name.
- `inputs: pair` is the BERT regressor: one encoder reads both texts together, and the perceptron its first token's
  vector. With the encoder's weights fixed 004 takes the last four layers side by side (`cls4`), and the last one
  (`cls`) if they learn too.

A hidden layer is linear, then ReLU, then dropout. `pipeline.finetune.grid` says what is chosen on validation.
"""

import enum
import itertools
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForSequenceClassification
from transformers.modeling_outputs import SequenceClassifierOutput

from pipeline.metric.apart import ApartConfig, ApartMetric, States

LAST_LAYERS = 4
"""Layers whose vectors of the first token stand side by side in `cls4`."""


class Inputs(enum.StrEnum):
    """How an encoder reads the two texts."""

    APART = "apart"
    PAIR = "pair"


class Vectors(enum.StrEnum):
    """What stands for a text, or for a pair."""

    MEAN = "mean"  # of the last layer's states over the tokens
    CLS = "cls"  # the first token's state in the last layer
    CLS4 = "cls4"  # the first token's states in the last four layers, or all if there are fewer, side by side


def vectors(states: States, kind: Vectors) -> torch.Tensor:
    """A vector for each text: (B, D), or with CLS4 (B, up to 4 D)."""
    if kind is Vectors.MEAN:
        words = states.words.unsqueeze(2)
        return (states.layers[-1] * words).sum(1) / words.sum(1).clamp(min=1)
    count = LAST_LAYERS if kind is Vectors.CLS4 else 1
    return torch.cat([layer[:, 0] for layer in states.layers[1:][-count:]], 1)


def compared(references: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """[r; c; |r - c|; r * c] of the vectors r and c, both (B, D): (B, 4 D).

    >>> compared(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, -1.0]])).tolist()
    [[1.0, 2.0, 3.0, -1.0, 2.0, 3.0, 3.0, -2.0]]
    """
    return torch.cat([references, candidates, (references - candidates).abs(), references * candidates], 1)


def hidden_layers(features: int, layers: int, width: int, dropout: float) -> torch.nn.Sequential:
    """`layers` hidden layers of a perceptron over `features` numbers; none at all if `layers` is 0."""
    widths = [features, *[width] * layers]
    blocks = [
        (torch.nn.Linear(before, after), torch.nn.ReLU(), torch.nn.Dropout(dropout))
        for before, after in itertools.pairwise(widths)
    ]
    return torch.nn.Sequential(*(part for block in blocks for part in block))


class RegressorConfig(ApartConfig):
    """`inputs` and `vectors` as above; `layers` hidden layers of `width` numbers, with dropout `head_dropout`."""

    model_type = "bleurt-regressor"

    def __init__(
        self,
        inputs: str = Inputs.APART.value,
        vectors: str = Vectors.MEAN.value,
        layers: int = 1,
        width: int = 512,
        **rest: Any,
    ) -> None:
        super().__init__(**rest)
        self.inputs, self.vectors, self.layers, self.width = inputs, vectors, layers, width

    @property
    def features(self) -> int:
        """How many numbers the perceptron reads of a pair."""
        found = 0
        for encoder in self.encoders:
            layers = min(LAST_LAYERS, encoder["num_hidden_layers"]) if self.vectors == Vectors.CLS4 else 1
            found += encoder["hidden_size"] * layers
        return found * (4 if self.inputs == Inputs.APART else 1)


class RegressorMetric(ApartMetric):
    """Encoders, their vectors, and a perceptron over them; `logits` is (pairs, outputs)."""

    config_class: type[ApartConfig] = RegressorConfig

    def __init__(self, config: RegressorConfig) -> None:
        super().__init__(config)
        self.hidden = hidden_layers(config.features, config.layers, config.width, config.head_dropout)
        self.classifier = torch.nn.Linear(config.width if config.layers else config.features, config.num_labels)
        self.post_init()

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        token_type_ids: torch.Tensor | None = None,
        **_: Any,
    ) -> SequenceClassifierOutput:
        """Outputs for a batch of pairs; the tensors are (pairs, tokens), as `EncodedPairs.batch` makes them."""
        kind = Vectors(self.config.vectors)
        if self.config.inputs == Inputs.PAIR:
            inputs = {"input_ids": input_ids, "attention_mask": attention_mask, "output_hidden_states": True}
            if token_type_ids is not None and getattr(self.encoders[0].config, "type_vocab_size", 0) > 1:
                inputs["token_type_ids"] = token_type_ids
            read = vectors(States(tuple(self.encoders[0](**inputs).hidden_states), attention_mask.bool()), kind)
        else:
            assert token_type_ids is not None
            sides = [
                self.sides(number, input_ids, attention_mask, token_type_ids) for number in range(len(self.encoders))
            ]
            references = torch.cat([vectors(reference, kind) for reference, _ in sides], 1)
            read = compared(references, torch.cat([vectors(candidate, kind) for _, candidate in sides], 1))
        return SequenceClassifierOutput(logits=self.classifier(self.hidden(read)))


AutoConfig.register(RegressorConfig.model_type, RegressorConfig, exist_ok=True)
AutoModelForSequenceClassification.register(RegressorConfig, RegressorMetric, exist_ok=True)
