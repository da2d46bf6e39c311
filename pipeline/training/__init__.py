"""Batches of similar length, and one resumable training loop for every model here."""
