"""Predictor-Estimator (Kim et al. 2017): quality estimation by how well a predictor would have said the translation.

The estimator is a bidirectional LSTM over the features of the candidate's pieces (`pipeline.metric.predictor`). The
mean and the maximum of its states go through a last linear layer to the rating. Kim et al. take the last states, and
HTER; 004 (section 4.2.2) trains on people's ratings, as here.
"""

from typing import Any

import torch
from transformers import AutoModelForSequenceClassification, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from pipeline.metric.esim import pooled, read_by
from pipeline.metric.predictor import AFTER, Predictor, PredictorConfig, features_of

FRESH = "estimator"
"""What a folder that holds only a predictor lacks, beside the last layer."""


class EstimatorMetric(PreTrainedModel):  # type: ignore[misc]
    """A predictor, an LSTM over its features, and a linear layer; `logits` is (pairs, outputs)."""

    config_class = PredictorConfig
    base_model_prefix = "predictor"

    def __init__(self, config: PredictorConfig) -> None:
        super().__init__(config)
        features, width = 3 * config.width + AFTER, config.estimator_width
        self.predictor = Predictor(config)
        self.dropout = torch.nn.Dropout(config.hidden_dropout_prob)
        self.estimator = torch.nn.LSTM(features, width, batch_first=True, bidirectional=True)
        self.classifier = torch.nn.Linear(4 * width, config.num_labels)
        self.post_init()

    def _init_weights(self, module: torch.nn.Module) -> None:
        """Layers that a folder lacks are drawn as torch draws them."""
        if isinstance(module, torch.nn.LSTM | torch.nn.Linear):
            module.reset_parameters()

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor, **_: Any
    ) -> SequenceClassifierOutput:
        """Outputs for a batch of pairs; the tensors are (pairs, tokens), as `EncodedPairs.batch` makes them."""
        said = self.predictor(input_ids, attention_mask, token_type_ids)
        states = read_by(self.estimator, self.dropout(features_of(self.predictor, said)), said.there)
        return SequenceClassifierOutput(logits=self.classifier(self.dropout(pooled(states, said.there))))


AutoModelForSequenceClassification.register(PredictorConfig, EstimatorMetric, exist_ok=True)
