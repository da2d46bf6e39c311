"""The techniques that make candidates, one module each."""
