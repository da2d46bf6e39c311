"""The cost of a training step: both ways read the same number of tokens, and both move through the model."""

import dataclasses
from pathlib import Path

import numpy
import torch
from test_finetuning import PARAMS
from tiny_filler import save_tiny_filler

from pipeline.core.models import load_tokenizer
from pipeline.metric.checkpoint import Head, new_metric
from pipeline.metric.pairs import encode_pairs
from pipeline.scoring.cli.step_cost import level, measure

REFERENCES, CANDIDATES = ["the cat", "a cat", "the dog the dog"], ["a cat", "the cat the cat", "a dog"]


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
    schedule = dataclasses.replace(PARAMS.schedule, steps=3)
    ours, bare = measure(model, pairs, ratings, dataclasses.replace(PARAMS, schedule=schedule), steps=2)
    assert ours > 0 and bare > 0
    assert any(not torch.equal(before[name], weight) for name, weight in model.state_dict().items()), "nothing trained"
