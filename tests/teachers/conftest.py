"""Tiny models and sentences."""

from tiny_bert import sentences, tiny_classifier, tiny_encoder

__all__ = ["sentences", "tiny_classifier", "tiny_encoder"]
