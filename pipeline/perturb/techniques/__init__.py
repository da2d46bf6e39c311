"""The techniques that make pairs, one module each; `pipeline.perturb.pairs.Technique` says what a module offers."""
