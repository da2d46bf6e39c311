"""The translators' recipe: what becomes of the pairs, and how the rate moves."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pipeline.bundled.recipes import translator
from pipeline.bundled.recipes.translator import (
    Cycle,
    Params,
    batches,
    curriculum,
    new_model,
    one_pass,
    rate_at,
    size_of,
    train_cycle,
)
from pipeline.bundled.texts import Example, SentencePair, encode, pieces_for
from pipeline.core.modules import ROOT
from pipeline.core.params import load_params

MARK, END = 5000, 0
RECIPE = load_params(ROOT / "params.yaml", "bundled.translator", Params)


def example(words: int, language: str = "fr", formal: bool = False) -> Example:
    """A pair whose source carries a language mark; `words` ids a side before the end."""
    return Example([MARK, *range(1, words + 1), END], [*range(1, words + 1), END], language, formal, 1)


def cycle(joined: float, formal_repeats: int = 1) -> Cycle:
    return Cycle(
        pieces=1000,
        learning_rate=1e-3,
        decay_fraction=0.5,
        short=8,
        short_pieces_read=100,
        joined=joined,
        formal_repeats=formal_repeats,
    )


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


def test_without_short_pairs_training_starts_on_all() -> None:
    examples = [example(20) for _ in range(10)]
    assert len(next(curriculum(examples, cycle(0.0), RECIPE))) == 10


def test_the_rate_warms_up_stays_and_falls_to_zero() -> None:
    warm = RECIPE.warmup_steps
    assert rate_at(RECIPE, cycle(0), 0, 0) == pytest.approx(1e-3 / warm)
    assert rate_at(RECIPE, cycle(0), warm, 400) == 1e-3
    assert rate_at(RECIPE, cycle(0), warm, 750) == pytest.approx(0.5e-3)
    assert rate_at(RECIPE, cycle(0), warm, 1000) == 0


def tiny_params() -> Params:
    sizes = {"vocabulary": 60, "width": 16, "feed_forward": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    return replace(RECIPE, **sizes, batch_tokens=100, warmup_steps=3)


def test_a_killed_cycle_goes_on_with_the_weights_of_one_that_was_never_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    params, rng = tiny_params(), random.Random(3)
    examples = [
        Example([58, *ids, 0], [*ids, 0], "fr", False, 1) for ids in ([rng.randint(1, 50)] * 6 for _ in range(40))
    ]
    monkeypatch.setattr(translator, "SAVE_SECONDS", -1.0)  # after every step

    def trained(state_file: Path) -> dict[str, torch.Tensor]:
        model = new_model(params, 60)
        train_cycle(model, examples, params, cycle(0.5), state_file)
        return model.state_dict()

    whole = trained(tmp_path / "whole.pt")
    steps = torch.load(tmp_path / "whole.pt", weights_only=True)["step"]
    assert steps >= 6
    loss_of, calls = translator.loss_of, []

    def killed_at_the_fourth(*arguments: object) -> object:
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return loss_of(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(translator, "loss_of", killed_at_the_fourth)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "part.pt")
    resumed = trained(tmp_path / "part.pt")
    assert len(calls) == 4 + steps - 3
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_pieces_are_made_once_and_name_the_languages(tmp_path: Path) -> None:
    pairs = [SentencePair(f"the cat sees {n} dogs", f"le chat voit {n} chiens", "fr", "tatoeba") for n in range(90)]
    tokenizer = pieces_for(pairs, tmp_path / "pieces", 40)
    assert len(tokenizer) == 39
    again = pieces_for([], tmp_path / "pieces", 40)
    assert again.get_vocab() == tokenizer.get_vocab()
    (there,) = encode(tokenizer, pairs[:1], into_english=False, max_pieces=100)
    (back,) = encode(tokenizer, pairs[:1], into_english=True, max_pieces=100)
    assert there.source == [tokenizer.convert_tokens_to_ids(">>fra<<"), *back.target]
    assert back.source == there.target == tokenizer("le chat voit 0 chiens")["input_ids"]
    assert (there.marks, back.marks, there.formal) == (1, 0, False)
    assert encode(tokenizer, pairs, into_english=True, max_pieces=3) == []
