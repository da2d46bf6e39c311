"""The translators' recipe: what becomes of the pairs, and how the rate moves."""

import random

import pytest

from pipeline.bundled.translator import RECIPE, Cycle, Example, batches, curriculum, one_pass, rate_at, size_of

MARK, END = 5000, 0


def example(words: int, language: str = "fr", formal: bool = False) -> Example:
    """A pair whose source carries a language mark; `words` ids a side before the end."""
    return Example([MARK, *range(1, words + 1), END], [*range(1, words + 1), END], language, formal, 1)


def cycle(joined: float, formal_repeats: int = 1) -> Cycle:
    return Cycle(1000, 1e-3, 0.5, short=8, short_pieces_read=100, joined=joined, formal_repeats=formal_repeats)


def test_joining_keeps_one_mark_and_one_end() -> None:
    both = example(2).joined_with(example(3))
    assert both.source == [MARK, 1, 2, 1, 2, 3, END]
    assert both.target == [1, 2, 1, 2, 3, END]


@pytest.mark.parametrize("joined", [0.0, 0.4, 1.0])
def test_a_pass_holds_every_everyday_word_once_and_formal_ones_repeated(joined: float) -> None:
    rng = random.Random(3)
    everyday = [example(rng.randint(1, 20), rng.choice(["fr", "de"])) for _ in range(500)]
    formal = [example(30, formal=True) for _ in range(10)]
    made = one_pass(everyday + formal, cycle(joined, formal_repeats=3), 60, random.Random(1))

    def words(examples: list[Example]) -> int:
        return sum(len(e.target) - 1 for e in examples)

    assert words([e for e in made if not e.formal]) == words(everyday)
    assert len([e for e in made if e.formal]) == 30
    assert max(e.longest for e in made) <= 60
    assert all(e.source.count(MARK) == 1 and e.source.count(END) == e.target.count(END) == 1 for e in made)
    assert (len(made) < 530) == (joined > 0)


def test_languages_are_never_mixed_in_one_text() -> None:
    rng = random.Random(3)
    french = [Example([MARK, 1, END], [1, END], "fr", False, 1)] * 100
    german = [Example([MARK, 2, END], [2, END], "de", False, 1)] * 100
    for text in one_pass(french + german, cycle(1.0), 40, rng):
        assert set(text.target) == {1 if text.language == "fr" else 2, END}


def test_batches_hold_each_example_once_within_the_budget() -> None:
    rng = random.Random(3)
    examples = [example(rng.randint(1, 50)) for _ in range(300)]
    made = list(batches(examples, 120, random.Random(1)))
    assert sorted(id(e) for batch in made for e in batch) == sorted(map(id, examples))
    assert all(len(b) * max(e.longest for e in b) <= 120 for b in made)


def test_the_curriculum_starts_with_short_pairs_and_repeats_itself_on_a_resume() -> None:
    rng = random.Random(3)
    examples = [example(rng.randint(1, 20)) for _ in range(100)]
    first, second = (curriculum(examples, cycle(0.5), RECIPE) for _ in range(2))
    read = 0
    for _ in range(30):
        batch = next(first)
        assert batch == next(second)
        if read < 100:
            assert max(e.longest for e in batch) <= 8
        read += size_of(batch)


def test_the_rate_warms_up_stays_and_falls_to_zero() -> None:
    warm = RECIPE.warmup_steps
    assert rate_at(RECIPE, cycle(0), 0, 0) == pytest.approx(1e-3 / warm)
    assert rate_at(RECIPE, cycle(0), warm, 400) == 1e-3
    assert rate_at(RECIPE, cycle(0), warm, 750) == pytest.approx(0.5e-3)
    assert rate_at(RECIPE, cycle(0), warm, 1000) == 0
