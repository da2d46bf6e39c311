"""The stage perturb: sentences become pairs of reference and candidate."""
