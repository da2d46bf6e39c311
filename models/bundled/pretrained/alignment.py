"""The metric's own architecture: an encoder over (reference, candidate) whose head sees how the words align.

The paper predicts only from [CLS]. A few thousand ratings teach a small encoder little about that vector, but the
cosines between hidden states say at once which words of one sentence stand in the other. The head here reads both:
[CLS] through a dense tanh layer, and BERTScore's greedy matching (Zhang et al. 2020) of the last hidden states. By then
each sentence has read the other, and fine-tuning moves the hidden states themselves.

This file needs only torch and transformers: `save_pretrained` puts a copy of it beside the weights, so that
`AutoModelForSequenceClassification.from_pretrained(folder, trust_remote_code=True)` works without this project.
"""

from collections.abc import Sequence
from typing import Any

import torch
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

MATCHES = 3
"""Features of the alignment: precision, recall, F measure."""

SPREAD = 40.0
"""Scale of the alignment's features: cosines from 0.4 to 1 become features from -4 to 20.

Adam moves every weight by about the learning rate, so what a weight adds to the output grows as fast as its feature is
large. At the encoder's small rate, three weights on large features keep pace with hundreds of weights on [CLS].
"""


class AlignmentConfig(PreTrainedConfig):  # type: ignore[misc]
    """`encoder` is the encoder's whole configuration; all tokens but `special_ids` count as words.

    If the model knows no segment types, the first `separator_id` ends the reference. `max_position_embeddings` is the
    longest input in tokens; some encoders do not count their positions from 0, and this number takes that into account.
    `reads` is "both" if a source stands between reference and candidate; its words match nothing.
    """

    model_type = "bleurt-alignment"

    def __init__(
        self,
        encoder: dict[str, Any] | None = None,
        separator_id: int = 0,
        special_ids: Sequence[int] = (),
        classifier_dropout: float = 0.1,
        max_position_embeddings: int = 512,
        reads: str = "reference",
        **rest: Any,
    ) -> None:
        super().__init__(**rest)
        self.encoder = encoder or {}
        self.separator_id = separator_id
        self.special_ids = list(special_ids)
        self.classifier_dropout = classifier_dropout
        self.max_position_embeddings = max_position_embeddings
        self.reads = reads
        for name in ("hidden_size", "num_hidden_layers", "pad_token_id", "vocab_size"):
            if name in self.encoder:
                setattr(self, name, self.encoder[name])

    def encoder_config(self) -> PreTrainedConfig:
        """The encoder's configuration as its own class."""
        settings = dict(self.encoder)
        config = AutoConfig.for_model(settings.pop("model_type"), **settings)
        assert isinstance(config, PreTrainedConfig)
        return config


class AlignmentMetric(PreTrainedModel):  # type: ignore[misc]
    """Encoder, pooled [CLS], alignment, and one linear layer over both; `logits` is (pairs, outputs)."""

    config_class = AlignmentConfig
    base_model_prefix = "encoder"

    def __init__(self, config: AlignmentConfig) -> None:
        super().__init__(config)
        self.encoder = AutoModel.from_config(config.encoder_config())
        if getattr(self.encoder, "pooler", None) is not None:
            self.encoder.pooler = None
        width = self.encoder.config.hidden_size
        self.pooler = torch.nn.Linear(width, width)
        self.dropout = torch.nn.Dropout(config.classifier_dropout)
        self.classifier = torch.nn.Linear(width + MATCHES, config.num_labels)
        self.post_init()

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **_: Any,
    ) -> SequenceClassifierOutput:
        """Outputs for a batch of pairs; `input_ids` and the masks are (pairs, tokens), as the tokenizer makes them.

        `inputs_embeds` (pairs, tokens, width) replaces the embeddings of `input_ids`; `input_ids` still says which
        tokens are words.
        """
        assert input_ids is not None
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        inputs = {"attention_mask": attention_mask}
        if token_type_ids is not None and getattr(self.encoder.config, "type_vocab_size", 0) > 1:
            inputs["token_type_ids"] = token_type_ids
        inputs |= {"input_ids": input_ids} if inputs_embeds is None else {"inputs_embeds": inputs_embeds}
        hidden = self.encoder(**inputs).last_hidden_state
        references, candidates = self._words(input_ids, attention_mask, token_type_ids)
        pooled = self.dropout(torch.tanh(self.pooler(hidden[:, 0])))
        matches = SPREAD * match(hidden, references, candidates) - SPREAD / 2
        with torch.autocast(hidden.device.type, enabled=False):  # scores in bf16 would come in steps of 0.004
            features = torch.cat([pooled.float(), matches], 1).to(self.classifier.weight.dtype)
            return SequenceClassifierOutput(logits=self.classifier(features))

    def _words(
        self, ids: torch.Tensor, attention_mask: torch.Tensor, types: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Which tokens are words of the reference, and which of the candidate: two boolean tensors (pairs, tokens)."""
        separators = (ids == self.config.separator_id).long()
        before = separators.cumsum(1) - separators
        both = self.config.reads == "both"
        second = types.bool() if types is not None else before > int(both)
        special = torch.isin(ids, torch.tensor(self.config.special_ids, device=ids.device, dtype=ids.dtype))
        words = attention_mask.bool() & ~special
        first = ~second & (before == 0) if both else ~second
        return words & first, words & second


def match(hidden: torch.Tensor, references: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """Greedy matching of hidden states (B, T, D): precision, recall and F measure, float32 (B, 3), at most 1 each.

    `references` and `candidates` (B, T) say which tokens are whose words. Every word counts with its best cosine to a
    word of the other side. Precision is the mean over the candidate's words, recall over the reference's. A side
    without words makes all three 0. With the reference [a, b] and the candidate [a], where a and b are at right angles,
    precision is 1, recall (1 + 0) / 2 and F 2 * 1 * 0.5 / 1.5 = 2/3.
    """
    with torch.autocast(hidden.device.type, enabled=False):
        unit = torch.nn.functional.normalize(hidden.float(), dim=-1)
        cosines = unit @ unit.transpose(1, 2)
        cosines = cosines.masked_fill(~(candidates.unsqueeze(2) & references.unsqueeze(1)), -1.0)
        precision = _mean(cosines.amax(2), candidates)
        recall = _mean(cosines.amax(1), references)
        total = precision + recall
        f_measure = torch.where(total > 0, 2 * precision * recall / total.clamp(min=1e-3), total / 2)
        matched = references.any(1) & candidates.any(1)
        return torch.stack([precision, recall, f_measure], 1) * matched.unsqueeze(1)


def _mean(best: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    """Mean of `best` (B, T) over the words of each row; 0 if a row has none."""
    return (best * words).sum(1) / words.sum(1).clamp(min=1)


AlignmentConfig.register_for_auto_class()
AlignmentMetric.register_for_auto_class("AutoModelForSequenceClassification")
AutoConfig.register(AlignmentConfig.model_type, AlignmentConfig, exist_ok=True)
AutoModelForSequenceClassification.register(AlignmentConfig, AlignmentMetric, exist_ok=True)
