"""Costs: operations as torch counts them; both ways of a training step read as many tokens; what options are worth."""

from collections.abc import Callable
from pathlib import Path

import numpy
import pytest
import torch
from tiny_filler import save_tiny_filler
from torch.utils.flop_counter import FlopCounterMode

from pipeline.core import kernels
from pipeline.core.errors import ParamsError
from pipeline.core.models import load_tokenizer
from pipeline.metric.checkpoint import Head, new_metric
from pipeline.metric.pairs import encode_pairs
from pipeline.metric.predictor import PredictorConfig
from pipeline.scoring.costs import (
    PLAIN,
    Sizes,
    level,
    moved,
    option_ways,
    pair_operations,
    product_rate,
    sizes_of,
    step_seconds,
)
from pipeline.scoring.scorer import BleurtScorer
from pipeline.training.schedule import Schedule

REFERENCES, CANDIDATES = ["the cat", "a cat", "the dog the dog"], ["a cat", "the cat the cat", "a dog"]


@pytest.mark.parametrize("head", Head)
def test_operations_are_those_that_torch_counts(new_checkpoint: Callable[..., Path], head: Head) -> None:
    model = BleurtScorer(new_checkpoint("adequacy", head=head), device="cpu").model
    encoder = getattr(model, "encoder", None) or model.bert
    encoder.set_attn_implementation("eager")  # its products are counted; those of fused attention are not
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        found = encoder(input_ids=torch.full((1, 40), 7))
    counted = counter.get_total_flops()
    if found.pooler_output is not None:
        counted -= 2 * 16 * 16  # the pooler belongs to the head
    assert sizes_of(model.config) == Sizes(layers=2, hidden=16, inner=32)
    assert pair_operations(40, sizes_of(model.config)) == counted


def test_a_model_without_an_encoder_of_pairs_is_refused() -> None:
    with pytest.raises(ParamsError, match="an encoder that reads pairs; bleurt-predictor has none"):
        sizes_of(PredictorConfig())


def test_the_rate_of_matrix_products_is_between_a_million_and_a_quadrillion() -> None:
    assert 1e6 < product_rate(Sizes(1, 16, 32), seconds=0.03) < 1e15


def test_the_bare_pass_reads_as_many_tokens_and_none_of_them_is_padding(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(save_tiny_filler(tmp_path / "tiny"))
    pairs = encode_pairs(tokenizer, REFERENCES, CANDIDATES, 16)
    inputs = level(pairs, [0, 1, 2])
    assert inputs["attention_mask"].all()
    assert inputs["input_ids"].shape == inputs["token_type_ids"].shape
    assert abs(inputs["input_ids"].numel() - pairs.lengths.sum()) <= len(pairs) / 2
    assert {0, 1} == set(inputs["token_type_ids"].flatten().tolist()), "both sentences are there"


def test_every_step_is_measured_both_ways(tmp_path: Path) -> None:
    folder = save_tiny_filler(tmp_path / "tiny")
    pairs = encode_pairs(load_tokenizer(folder), REFERENCES, CANDIDATES, 16)
    model = new_metric(str(folder), Head.ALIGNMENT, ["adequacy"], 0.0, 1)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    ratings = torch.from_numpy(numpy.array([[0.1], [0.5], [0.9]], dtype=numpy.float32))
    schedule = Schedule(
        steps=3, learning_rate=1e-3, layer_decay=1.0, weight_decay=0.0, warmup_share=0.1, clip_norm=1.0,
        evaluate_every=1, save_every=1, seed=1,
    )  # fmt: skip
    ours, bare = step_seconds(model, pairs, ratings, 2, schedule, steps=2)
    assert ours > 0 and bare > 0
    assert any(not torch.equal(before[name], weight) for name, weight in model.state_dict().items()), "nothing trained"


def test_options_are_those_of_the_processor_and_score_alike(
    checkpoint: Path, references: list[str], candidates: list[str]
) -> None:
    able = {"bf16": kernels.has_bf16(), "int8": kernels.has_int8()}
    found = option_ways(str(checkpoint), list(zip(references, candidates, strict=True)))
    assert list(found) == [PLAIN, *(f"--precision {name}" for name in able if able[name])]
    expected = found[PLAIN][1]()
    assert [score() for _, score in found.values()] == [pytest.approx(expected, abs=0.4)] * len(found)


def test_moves_are_those_of_pairs_and_of_agreement() -> None:
    """Pair 2 moves by 1.5 and changes places with pair 3: one of three pairs of pairs disagrees, tau 1/3 after 1."""
    scores = {PLAIN: [0.0, 1.0, 2.0], "other": [0.0, 2.5, 2.0]}
    found = moved(scores, [1.0, 2.0, 3.0])
    other = found["other"]
    assert (other.mean, other.largest, other.kendall) == pytest.approx((0.5, 1.5, -2 / 3))
    assert (found[PLAIN].largest, found[PLAIN].kendall) == (0.0, 0.0)
    assert moved(scores, [1.0, 1.0, 1.0])["other"].kendall is None
