"""The stage extract: Wikipedia dumps become clean, distinct sentences."""
