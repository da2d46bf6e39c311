"""The layouts that ratings are published in, one module each."""
