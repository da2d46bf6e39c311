"""An encoder of another family than BERT's: MPNet, whose pairs, positions and tokenizer differ."""

import json
from pathlib import Path

import numpy
import pytest
import torch
from tiny_mpnet import save_tiny_mpnet

from pipeline.core.models import load_config, load_tokenizer, usable_tokens
from pipeline.metric.alignment import AlignmentMetric
from pipeline.metric.checkpoint import Head, head_of, load_metric, new_metric, save_metric
from pipeline.metric.pairs import encode_pairs
from pipeline.scoring.__main__ import main
from pipeline.scoring.scorer import BleurtScorer

REFERENCES = ["the cat sat on the mat", "a dog ran", "paris"]
CANDIDATES = ["the cat sat", "the small red dog ran on and on", ""]
LONG = "the small red house " * 40


@pytest.fixture(params=Head)
def checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    encoder = save_tiny_mpnet(tmp_path / "encoder")
    model = new_metric(str(encoder), request.param, ["adequacy"], dropout=0.0, seed=1)
    torch.nn.init.normal_(head_of(model).weight, std=0.2, generator=torch.Generator().manual_seed(5))
    save_metric(model, load_tokenizer(encoder), tmp_path / "metric")
    return tmp_path / "metric"


def test_pairs_have_two_separators_and_no_segment_types(checkpoint: Path) -> None:
    tokenizer = load_tokenizer(checkpoint)
    pairs = encode_pairs(tokenizer, REFERENCES, CANDIDATES, 64)
    batch = pairs.batch([0], "cpu")
    assert "token_type_ids" not in batch
    tokens = tokenizer.convert_ids_to_tokens(batch["input_ids"][0])
    assert tokens == ["<s>", *REFERENCES[0].split(), "</s>", "</s>", *CANDIDATES[0].split(), "</s>"]


def test_the_words_of_either_side_are_those_between_the_separators(checkpoint: Path) -> None:
    model = load_metric(checkpoint, "cpu")
    if not isinstance(model, AlignmentMetric):
        pytest.skip("the paper's head sees no words")
    batch = encode_pairs(load_tokenizer(checkpoint), REFERENCES, CANDIDATES, 64).batch([0, 2], "cpu")
    references, candidates = model._words(batch["input_ids"], batch["attention_mask"], None)
    assert references.sum(1).tolist() == [6, 1] and candidates.sum(1).tolist() == [3, 0]
    assert not (references & candidates).any() and references[0, 1:7].all() and candidates[0, 9:12].all()


def test_the_longest_pair_uses_every_position_and_no_more(checkpoint: Path) -> None:
    tokenizer, config = load_tokenizer(checkpoint), load_config(checkpoint)
    assert usable_tokens(config, tokenizer) == 64
    scorer = BleurtScorer(checkpoint, device="cpu", max_tokens=64)
    with pytest.warns(UserWarning, match="1 of 2 pairs have more than 64 tokens"):
        cut = scorer.score([LONG, REFERENCES[0]], [LONG, CANDIDATES[0]])
    windows = BleurtScorer(checkpoint, device="cpu", max_tokens=64, long="windows").score([LONG], [LONG])
    assert numpy.isfinite(cut).all() and numpy.isfinite(windows).all() and abs(cut[0] - windows[0]) > 1e-6


def test_a_score_does_not_depend_on_the_batch(checkpoint: Path) -> None:
    scorer = BleurtScorer(checkpoint, device="cpu")
    together = scorer.score(REFERENCES, CANDIDATES)
    alone = [scorer.score([z], [c])[0] for z, c in zip(REFERENCES, CANDIDATES, strict=True)]
    numpy.testing.assert_allclose(together, alone, atol=1e-5)


def test_explain_and_selftest_read_it(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ["selftest", "--write"],
        ["selftest"],
        ["explain", "--pair", REFERENCES[0], CANDIDATES[0], "--format", "json"],
    ):
        try:
            main([*arguments, "--checkpoint", str(checkpoint)])
        except SystemExit as end:
            assert not end.code, arguments
    output = capsys.readouterr().out
    assert "PASS" in output
    assert json.loads((checkpoint / "selftest.json").read_text())
