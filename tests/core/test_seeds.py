"""Generators depend on the seed and every part of the scope, and on nothing else."""

from pipeline.core.seeds import generator


def test_same_scope_same_numbers_other_scope_others() -> None:
    first = generator(1, "perturb", 3).integers(1_000_000, size=4).tolist()
    assert generator(1, "perturb", 3).integers(1_000_000, size=4).tolist() == first
    others = [
        generator(2, "perturb", 3),
        generator(1, "perturb", 4),
        generator(1, "label", 3),
        generator(1, "perturb3"),
    ]
    assert all(other.integers(1_000_000, size=4).tolist() != first for other in others)
