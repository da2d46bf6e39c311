"""The learned metric: architecture, checkpoint, pairs in tokens, tasks, prediction."""
