"""Layouts that ratings are published in, one module each; `pipeline.collect.corpus` says what a module offers."""
