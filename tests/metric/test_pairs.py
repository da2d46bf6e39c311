"""Pairs as flat arrays: batches are the tokenizer's own, chunks and shards change nothing."""

from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from tiny_filler import save_tiny_filler

from pipeline.core.errors import ModelError
from pipeline.core.models import load_tokenizer
from pipeline.metric import pairs as module
from pipeline.metric.pairs import encode_pairs, join

REFERENCES = ["the cat sat on the mat.", "a dog ran.", "the small red house", "", "the bird sat"]
CANDIDATES = ["the cat sat.", "", "the small house was red", "", "the bird sat on the red mat on the house"]


@pytest.fixture
def tokenizer(tmp_path: Path) -> Any:
    return load_tokenizer(save_tiny_filler(tmp_path / "encoder"))


@pytest.mark.parametrize("rows", [[0, 1, 2, 3, 4], [4, 1], [3], [1, 1]])
@pytest.mark.parametrize("max_tokens", [9, 64])
def test_a_batch_is_what_the_tokenizer_makes_of_its_rows(tokenizer: Any, rows: list[int], max_tokens: int) -> None:
    encoded = encode_pairs(tokenizer, REFERENCES, CANDIDATES, max_tokens)
    texts = [REFERENCES[i] for i in rows], [CANDIDATES[i] for i in rows]
    expected = tokenizer(*texts, padding=True, truncation=True, max_length=max_tokens, return_tensors="pt")
    for found in (encoded.batch(rows, "cpu"), encoded.take(numpy.array(rows)).batch(range(len(rows)), "cpu")):
        assert set(found) == set(expected) == {"input_ids", "attention_mask", "token_type_ids"}
        for name, tensor in expected.items():
            assert found[name].dtype == tensor.dtype
            assert torch.equal(found[name], tensor)


def test_chunks_and_parts_change_nothing(tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = encode_pairs(tokenizer, REFERENCES, CANDIDATES, 9)
    monkeypatch.setattr(module, "CHUNK_PAIRS", 2)
    halves = [encode_pairs(tokenizer, REFERENCES[part], CANDIDATES[part], 9) for part in (slice(0, 3), slice(3, 5))]
    for other in (encode_pairs(tokenizer, REFERENCES, CANDIDATES, 9), join(halves)):
        assert numpy.array_equal(other.ids, whole.ids) and numpy.array_equal(other.starts, whole.starts)
        assert numpy.array_equal(other.seconds, whole.seconds)
        assert other.truncated == whole.truncated > 0
    assert whole.lengths.tolist() == [len(whole.batch([i], "cpu")["input_ids"][0]) for i in range(5)]


def test_the_same_tokens_stay_as_with_longest_first(tokenizer: Any) -> None:
    sides = [" ".join(["cat", "dog", "mat"][i % 3] for i in range(words)) for words in range(9)]
    pairs = [(z, c) for z in sides for c in sides]
    for max_tokens in range(5, 12):
        encoded = encode_pairs(tokenizer, [z for z, _ in pairs], [c for _, c in pairs], max_tokens)
        for row, pair in enumerate(pairs):
            texts = [pair[0]], [pair[1]]
            expected = tokenizer(*texts, truncation="longest_first", max_length=max_tokens)["input_ids"][0]
            assert encoded.batch([row], "cpu")["input_ids"][0].tolist() == expected, (pair, max_tokens)
            assert encoded.cut[row] == (len(tokenizer(*texts)["input_ids"][0]) > max_tokens)


def test_chunks_are_bounded_by_characters(tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_CHARACTERS", 50)
    assert list(module._cuts(REFERENCES, CANDIDATES)) == [(0, 2), (2, 4), (4, 5)]
    long = "the cat sat. " * 3000  # a tokenizer's own truncation takes gigabytes of the product of the two lengths
    assert encode_pairs(tokenizer, [long, "a"], [long, "a"], 9).lengths.tolist() == [9, 5]


def test_segments_numbered_in_another_way_are_refused(tokenizer: Any) -> None:
    class Odd:
        pad_token_id, name_or_path = 0, "odd"

        def __call__(self, *texts: Any, **options: Any) -> dict[str, list[list[int]]]:
            return {"input_ids": [[5, 6, 7]], "token_type_ids": [[0, 1, 0]]}

    with pytest.raises(ModelError, match=r"^odd: segments must be numbered 0, then 1"):
        encode_pairs(Odd(), ["a"], ["b"], 9)
