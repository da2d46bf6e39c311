"""Recipes of the bundled models, one module each, found by name; `pipeline.bundled.__main__` says what one offers."""
