"""What a technique starts from, made of a few texts."""

from collections.abc import Callable, Sequence

import numpy
import pytest

from pipeline.perturb.pairs import Attempt, Segment, Shard


@pytest.fixture(scope="session")
def shard_of() -> Callable[..., Shard]:
    """Makes the only shard of a run out of texts, whose ids are "0", "1", …, and of pairs made before."""

    def make(texts: Sequence[str] = (), rng: numpy.random.Generator | None = None, pairs: Sequence[Attempt] = ()):
        segments = [Segment(str(number), text) for number, text in enumerate(texts)]
        return Shard(segments, pairs, index=0, count=1, seed=1, rng=rng or numpy.random.default_rng(0))

    return make
