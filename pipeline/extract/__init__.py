"""The stage extract: a Wikipedia dump becomes clean, distinct sentences."""
