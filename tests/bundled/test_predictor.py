"""The predictor's recipe: directions, draws, the sampled softmax by hand, and that it learns what can be learned."""

from pathlib import Path

import numpy
import pytest
import torch
from tiny_filler import save_tiny_filler

from pipeline.bundled.recipes.predictor import (
    Params,
    check_found,
    directed,
    drawn_rows,
    encoded,
    piece_shares,
    said_well,
    sampled_loss,
)
from pipeline.bundled.texts import SentencePair
from pipeline.core.errors import ParamsError
from pipeline.core.models import load_tokenizer
from pipeline.metric.predictor import Predictor, PredictorConfig, Said
from pipeline.training.loop import fit
from pipeline.training.schedule import BatchPlan, Schedule

PARAMS = Params(
    language_pairs=("en-de", "*-en"), balance=0.5, vocabulary=60, piece_texts=9, width=12, dropout=0.0, sampled=1000,
    max_tokens=32, heldout_one_in=8, validation_pairs=2, batch_rows=8,
    schedule=Schedule(
        steps=100, learning_rate=0.01, layer_decay=1.0, weight_decay=0.0, warmup_share=0.05, clip_norm=1.0,
        evaluate_every=50, save_every=100, seed=1,
    ),
)  # fmt: skip
SIDES = {"cat": "dog", "house": "mat", "bird": "red", "paris": "small"}


def test_pairs_go_the_ways_that_the_patterns_name() -> None:
    pairs = [SentencePair("A cat.", "Eine Katze.", "de", "x"), SentencePair("A dog.", "Un chien.", "fr", "x")]
    found = directed(pairs, ("en-de", "*-en"))
    assert found == {
        "de-en": [("Eine Katze.", "A cat.")], "en-de": [("A cat.", "Eine Katze.")], "fr-en": [("Un chien.", "A dog.")],
    }  # fmt: skip
    with pytest.raises(ParamsError, match=r"^bundled\.predictor\.language_pairs: there is no parallel text of 'en-zh'"):
        check_found(("en-de", "en-zh"), found, found)
    with pytest.raises(ParamsError, match=r"there is no held-out parallel text of 'en-de'"):
        check_found(("en-de",), found, ["fr-en"])


def test_rows_of_small_languages_come_more_often_and_each_once_before_any_twice() -> None:
    rows = drawn_rows({"de-en": 400, "ne-en": 4}, PARAMS)
    assert len(rows) == 800
    small = rows[rows >= 400]
    assert 50 < len(small) < 100, "4 ** 0.5 of 20 + 2 is a share of 1/11"
    counts = numpy.bincount(small - 400, minlength=4)
    assert counts.max() - counts.min() <= 1
    assert set(numpy.bincount(rows[rows < 400], minlength=400).tolist()) == {1, 2}


def test_the_whole_vocabulary_as_a_sample_gives_the_usual_loss(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(save_tiny_filler(tmp_path))
    pairs = encoded([("the cat", "a dog ran"), ("a mat", "the house")], tokenizer, 32)
    predictor = Predictor(PredictorConfig(len(tokenizer), 8, tokenizer.cls_token_id, hidden_dropout_prob=0.0)).eval()
    shares = torch.from_numpy(piece_shares(pairs, numpy.array([0, 1]), len(tokenizer)))
    assert shares.sum() == pytest.approx(1.0) and shares[tokenizer.sep_token_id] == pytest.approx(2 / 7)
    with torch.no_grad():
        found = float(sampled_loss(predictor, predictor(**pairs.batch([0, 1], "cpu")), shares, 10**6))
    assert found == pytest.approx(-float(said_well(predictor, pairs)[0].mean()), abs=1e-5)


def test_a_sample_teaches_the_probabilities_of_the_whole_vocabulary() -> None:
    """Only the bias can learn here. Without Q, pieces that are often in a sample would get too little."""
    shares = torch.tensor([0.5, 0.25, 0.15, *[0.01] * 10], dtype=torch.float64)
    predictor = Predictor(PredictorConfig(13, 2))
    optimizer = torch.optim.Adam([predictor.bias], lr=0.02)
    torch.manual_seed(1)
    bias = torch.zeros(13)
    for step in range(800):
        pieces = torch.multinomial(shares, 8, replacement=True).unsqueeze(0)
        nothing = torch.zeros(1, 8, 2)
        sampled_loss(predictor, Said(nothing, pieces, pieces >= 0, nothing), shares, 2).backward()
        optimizer.step()
        optimizer.zero_grad()
        bias += predictor.bias.detach() * (step >= 400) / 400
    found = bias.softmax(0)
    numpy.testing.assert_allclose(found[:3].numpy(), shares[:3].numpy(), atol=0.06)


@pytest.mark.parametrize("known", [True, False])
def test_it_learns_a_translation_and_not_what_the_source_does_not_say(known: bool, tmp_path: Path) -> None:
    """The last word is said by the source alone, or by nothing: then it is right once in four times."""
    tokenizer = load_tokenizer(save_tiny_filler(tmp_path))
    rng = numpy.random.default_rng(1)
    words = [str(word) for word in rng.choice(list(SIDES), 160)]
    others = words if known else [str(word) for word in rng.choice(list(SIDES), 160)]
    pairs = encoded([(f"the {a}", f"a {SIDES[b]}") for a, b in zip(words, others, strict=True)], tokenizer, 32)
    torch.manual_seed(1)
    predictor = Predictor(PredictorConfig(len(tokenizer), 24, tokenizer.cls_token_id, hidden_dropout_prob=0.0))
    rows = numpy.arange(128)
    shares, plan = torch.from_numpy(piece_shares(pairs, rows, len(tokenizer))), BatchPlan(pairs.lengths[rows], 8, 1)

    def loss(model: torch.nn.Module, batch: list[int]) -> torch.Tensor:
        return sampled_loss(predictor, model(**pairs.batch(batch, "cpu")), shares, 20)

    before = float(said_well(predictor.eval(), pairs.take(numpy.arange(128, 160)))[0].mean())
    history = fit(predictor, loss, plan.rows, PARAMS.schedule, tmp_path / "state.pt")
    likely, best = said_well(predictor, pairs.take(numpy.arange(128, 160)))
    assert history.points[-1]["loss"] < history.points[0]["loss"]
    right = float(best.mean()) * 3 - 2  # of the three pieces, "a" and [SEP] are always right
    if known:
        assert float(likely.mean()) > before + 2 and right > 0.9
    else:
        assert right < 0.6
