"""Models that label and perturb: translators, encoders, and how the vectors of two texts match."""
