"""ESIM, a network that compares two texts word by word (Chen et al. 2017), as a metric (Mathur et al. 2019).

1. A bidirectional LSTM reads each text's token embeddings. Here these are the last states of an encoder that reads the
   texts apart, as in Mathur et al.; 004 and the issue keep the encoder's weights fixed (`finetune.encoder: frozen`).
2. Soft attention: the attention from word i of one text to word j of the other is the softmax over j of the product of
   their states. a' is what a word sees of the other text: the mean of its states by these weights.
3. Comparison: [a; a'; a - a'; a * a'] of every word goes through a linear layer with ReLU, then through a second LSTM.
4. Pooling: the mean and the maximum over each text's words, four vectors, go through a hidden layer with ReLU.

Chen et al. end with tanh and classes instead of ReLU and a number. Dropout stands before every layer.
"""

from typing import Any

import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import AutoConfig, AutoModelForSequenceClassification
from transformers.modeling_outputs import SequenceClassifierOutput

from pipeline.metric.apart import ApartConfig, ApartMetric


def attended(
    states: torch.Tensor, words: torch.Tensor, others: torch.Tensor, other_words: torch.Tensor
) -> torch.Tensor:
    """What every word of `states` (B, T, D) sees of `others` (B, U, D): (B, T, D); 0 where `words` (B, T) is false.

    With the states [2] and the others [0] and [1], the products are 0 and 2, the weights 0.12 and 0.88:

    >>> one, two = torch.tensor([[[2.0]]]), torch.tensor([[[0.0], [1.0]]])
    >>> round(attended(one, torch.ones(1, 1, dtype=bool), two, torch.ones(1, 2, dtype=bool)).item(), 2)
    0.88
    """
    products = states @ others.transpose(1, 2)
    weights = products.masked_fill(~other_words.unsqueeze(1), -1e4).softmax(2)
    return (weights @ others) * words.unsqueeze(2)


def pooled(states: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    """Mean and maximum over the words of `states` (B, T, D): (B, 2 D).

    >>> states, words = torch.tensor([[[1.0], [3.0], [9.0]]]), torch.tensor([[True, True, False]])
    >>> pooled(states, words).tolist()
    [[2.0, 3.0]]
    """
    there = words.unsqueeze(2)
    mean = (states * there).sum(1) / there.sum(1).clamp(min=1)
    return torch.cat([mean, states.masked_fill(~there, -1e4).amax(1)], 1)


class EsimConfig(ApartConfig):
    """`width`: of a state of the LSTMs in one direction."""

    model_type = "bleurt-esim"

    def __init__(self, width: int = 128, **rest: Any) -> None:
        super().__init__(**rest)
        self.width = width


class EsimMetric(ApartMetric):
    """One encoder, two LSTMs with attention between them, and a hidden layer; `logits` is (pairs, outputs)."""

    config_class: type[ApartConfig] = EsimConfig

    def __init__(self, config: EsimConfig) -> None:
        super().__init__(config)
        width = config.width
        both = {"batch_first": True, "bidirectional": True}
        self.dropout = torch.nn.Dropout(config.head_dropout)
        self.reader = torch.nn.LSTM(config.hidden_size, width, **both)
        self.comparison = torch.nn.Linear(8 * width, width)
        self.composer = torch.nn.LSTM(width, width, **both)
        self.hidden = torch.nn.Linear(8 * width, width)
        self.classifier = torch.nn.Linear(width, config.num_labels)
        self.post_init()

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor, **_: Any
    ) -> SequenceClassifierOutput:
        """Outputs for a batch of pairs; the tensors are (pairs, tokens), as `EncodedPairs.batch` makes them."""
        sides = self.sides(0, input_ids, attention_mask, token_type_ids)
        (one, its), (two, others) = [
            (read_by(self.reader, self.dropout(side.layers[-1]), side.words), side.words) for side in sides
        ]
        seen = [(one, attended(one, its, two, others), its), (two, attended(two, others, one, its), others)]
        found = []
        for states, across, words in seen:
            joined = torch.cat([states, across, states - across, states * across], 2)
            compared = torch.relu(self.comparison(self.dropout(joined)))
            found.append(pooled(read_by(self.composer, self.dropout(compared), words), words))
        features = self.dropout(torch.relu(self.hidden(self.dropout(torch.cat(found, 1)))))
        return SequenceClassifierOutput(logits=self.classifier(features))


def read_by(network: torch.nn.LSTM, states: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    """What `network` makes of the words of `states` (B, T, D), which stand first in their rows; 0 elsewhere."""
    lengths = words.sum(1).clamp(min=1).cpu()
    packed = pack_padded_sequence(states, lengths, batch_first=True, enforce_sorted=False)
    found, _ = network(packed)
    read: torch.Tensor = pad_packed_sequence(found, batch_first=True, total_length=states.shape[1])[0]
    return read


AutoConfig.register(EsimConfig.model_type, EsimConfig, exist_ok=True)
AutoModelForSequenceClassification.register(EsimConfig, EsimMetric, exist_ok=True)
