"""Synthetic sentence pairs: sentences from Wikipedia, and the ways to perturb them."""
