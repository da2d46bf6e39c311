"""The Predictor of Predictor-Estimator (Kim et al. 2017): it says each word of a translation from all around it.

It learns from parallel text alone. A bidirectional LSTM reads the source; another reads the target, framed by one mark
at each end. What is known of word j without having read it is the forward state of word j - 1 and the backward state
of word j + 1. They ask for a mean of the source's states (attention). A hidden layer over the three makes a vector t,
and the probability of a word w is the softmax over the vocabulary of t * E_w + b_w, where E_w is the embedding that
the LSTMs read too. Of every word of a translation, quality estimation gets features from before and after the softmax
(`features_of`).

Kim et al. have GRUs, additive attention, maxout units and embeddings of their own at the output. Here the attention is
a product, the hidden layer ends with tanh, and one vocabulary of pieces serves all languages. A row of input is
[CLS] source [SEP] candidate [SEP], as that of all other metrics; the last [SEP] is said like a word, so that an empty
candidate has a feature too.
"""

from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel

from pipeline.metric.esim import attended, read_by

AFTER = 3
"""Features from after the softmax: log p(word), log p(word) - log p(best word), and the entropy."""


class PredictorConfig(PreTrainedConfig):  # type: ignore[misc]
    """`width`: of embeddings, and of a state of an LSTM in one direction. `mark`: id of the target's marks.

    `estimator_width`: of a state of the estimator's LSTM in one direction (`pipeline.metric.estimator`).
    """

    model_type = "bleurt-predictor"

    def __init__(
        self,
        vocab_size: int = 0,
        width: int = 256,
        mark: int = 0,
        estimator_width: int = 128,
        hidden_dropout_prob: float = 0.1,
        max_position_embeddings: int = 512,
        reads: str = "source",
        **rest: Any,
    ) -> None:
        super().__init__(**rest)
        self.vocab_size, self.width, self.mark, self.estimator_width = vocab_size, width, mark, estimator_width
        self.hidden_dropout_prob, self.max_position_embeddings = hidden_dropout_prob, max_position_embeddings
        self.reads, self.hidden_size, self.num_hidden_layers, self.hidden_act = reads, width, 1, "tanh"


@dataclass(frozen=True)
class Said:
    """What the predictor makes of the targets of B rows, of T pieces at most.

    `vectors` (B, T, D): t of each piece. `pieces` (B, T): the piece that stands there. `there` (B, T): whether one
    does. `states` (B, T, 2 D): forward and backward state of the piece, both of which have read it.
    """

    vectors: torch.Tensor
    pieces: torch.Tensor
    there: torch.Tensor
    states: torch.Tensor


class Predictor(PreTrainedModel):  # type: ignore[misc]
    """Two bidirectional LSTMs, attention between them and a hidden layer."""

    config_class = PredictorConfig
    base_model_prefix = "predictor"

    def __init__(self, config: PredictorConfig) -> None:
        super().__init__(config)
        width = config.width
        both = {"batch_first": True, "bidirectional": True}
        self.embeddings = torch.nn.Embedding(config.vocab_size, width)
        self.dropout = torch.nn.Dropout(config.hidden_dropout_prob)
        self.source = torch.nn.LSTM(width, width, **both)
        self.target = torch.nn.LSTM(width, width, **both)
        self.question = torch.nn.Linear(2 * width, 2 * width, bias=False)
        self.hidden = torch.nn.Linear(4 * width, width)
        self.bias = torch.nn.Parameter(torch.zeros(config.vocab_size))
        torch.nn.init.normal_(self.embeddings.weight, std=width**-0.5)
        self.post_init()

    def _init_weights(self, module: torch.nn.Module) -> None:
        """Weights stay as they were made."""

    def get_input_embeddings(self) -> torch.nn.Module:
        """The embeddings of pieces, which serve at the output too."""
        return self.embeddings

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor, **_: Any
    ) -> Said:
        """What is said of a batch of pairs; the tensors are (pairs, tokens), as `EncodedPairs.batch` makes them."""
        there = attention_mask.bool()
        before = there & (token_type_ids == 0)
        sources = read_by(self.source, self._embedded(input_ids[:, : int(before.sum(1).max())]), before)
        pieces, words = targets_of(input_ids, before.sum(1), there.sum(1))
        mark = torch.full_like(pieces[:, :1], self.config.mark)
        frame = torch.cat([mark, pieces.where(words, mark), mark], 1)
        framed = torch.nn.functional.pad(words, (2, 0), value=True)
        states = read_by(self.target, self._embedded(frame), framed)
        ahead, back = states.chunk(2, 2)
        around = torch.cat([ahead[:, :-2], back[:, 2:]], 2)
        seen = attended(self.question(around), words, sources, before[:, : sources.shape[1]])
        vectors = torch.tanh(self.hidden(self.dropout(torch.cat([around, seen], 2))))
        return Said(vectors, pieces, words, torch.cat([ahead[:, 1:-1], back[:, 1:-1]], 2))

    def _embedded(self, ids: torch.Tensor) -> torch.Tensor:
        """What the LSTMs read, with numbers around 1; at the output embeddings of that size would make it too sure."""
        embedded: torch.Tensor = self.dropout(self.embeddings(ids) * self.config.width**0.5)
        return embedded

    def log_probabilities(self, vectors: torch.Tensor) -> torch.Tensor:
        """Of every piece of the vocabulary, by the vectors t (n, D): (n, pieces) in single precision."""
        return torch.nn.functional.linear(vectors, self.embeddings.weight, self.bias).float().log_softmax(1)


def targets_of(ids: torch.Tensor, starts: torch.Tensor, ends: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The ids of each row of `ids` (B, L) from `starts` (B,) to before `ends` (B,), and where there are any: (B, T).

    >>> rows = torch.tensor([[2, 7, 3, 8, 3], [2, 3, 3, 0, 0]])
    >>> ids, words = targets_of(rows, torch.tensor([3, 2]), torch.tensor([5, 3]))
    >>> ids.tolist(), words.tolist()
    ([[8, 3], [3, 3]], [[True, True], [True, False]])
    """
    lengths = ends - starts
    places = torch.arange(int(lengths.max()), device=ids.device).unsqueeze(0)
    words = places < lengths.unsqueeze(1)
    return ids.gather(1, torch.minimum(starts.unsqueeze(1) + places, ends.unsqueeze(1) - 1)), words


def features_of(predictor: Predictor, said: Said) -> torch.Tensor:
    """What is known of every piece: (B, T, 3 D + AFTER), 0 where there is none.

    Before the softmax: the product of t and the embedding of the piece, number by number, whose sum and bias are what
    the softmax reads; it says why a piece fits or not. After it: how likely the piece is, how far behind the best one,
    and how sure the predictor is. And the two states that have read the piece, which tell what it is.
    """
    vectors, pieces = said.vectors[said.there], said.pieces[said.there]
    found = predictor.log_probabilities(vectors)
    own = found.gather(1, pieces.unsqueeze(1))
    after = torch.cat([own, own - found.amax(1, keepdim=True), -(found.exp() * found).sum(1, keepdim=True)], 1)
    before = vectors * predictor.embeddings.weight[pieces]
    features = torch.cat([before.float(), after, said.states[said.there].float()], 1)
    whole = features.new_zeros(*said.there.shape, features.shape[1])
    whole[said.there] = features
    return whole


AutoConfig.register(PredictorConfig.model_type, PredictorConfig, exist_ok=True)
AutoModel.register(PredictorConfig, Predictor, exist_ok=True)
