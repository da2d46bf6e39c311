"""The metric: encoder and heads, losses, checkpoints, and where models come from."""
