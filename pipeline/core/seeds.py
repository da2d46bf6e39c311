"""Random generators derived from (seed, stage, shard): the same on every worker, in every order (law 4)."""

import hashlib

import numpy


def generator(seed: int, *scope: str | int) -> numpy.random.Generator:
    """A generator that depends on `seed` and on every part of `scope`, such as `("perturb", shard)`."""
    text = "\x1f".join([str(seed), *map(str, scope)])
    return numpy.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big"))
