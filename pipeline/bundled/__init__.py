"""Recipes of the models under models/bundled: translators, mask filler, entailment classifier."""
