"""Pairs in tokens on disk: the batches are those of pairs in memory; made once, whole, by one process at a time."""

import multiprocessing
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from tiny_filler import save_tiny_filler

from pipeline.core import work
from pipeline.core.errors import InputError
from pipeline.core.models import load_tokenizer
from pipeline.core.records import PAIRS
from pipeline.core.shards import shard_name, table_of, write_shard
from pipeline.metric.pairs import encode_pairs
from pipeline.pretrain import tokens
from pipeline.pretrain.tokens import mapped_pairs

REFERENCES = ["the cat sat on the mat.", "a dog ran.", "the small red house", "the bird sat", "a dog sat on the mat"]
CANDIDATES = ["the cat sat.", "", "the small house was red", "the bird sat on the red mat on the house", "a cat sat"]


def write(folder: Path, sizes: tuple[int, ...] = (2, 0, 3)) -> Path:
    first = 0
    for index, size in enumerate(sizes):
        rows = [
            {**dict.fromkeys(PAIRS.names), "pair_id": f"{i}", "segment_id": f"{i}", "reference": REFERENCES[i]}
            | {"candidate": CANDIDATES[i], "technique": "mask_fill", "dropped_words": 0}
            for i in range(first, first + size)
        ]
        write_shard(folder / shard_name(index), table_of(rows, PAIRS))
        first += size
    return folder


@pytest.fixture
def tokenizer(tmp_path: Path) -> Any:
    return load_tokenizer(save_tiny_filler(tmp_path / "encoder"))


@pytest.mark.parametrize("small", [2**16, 1])
@pytest.mark.parametrize("rows", [[0, 1, 2, 3, 4], [4, 1], [3], [1, 1], [2, 3]])
def test_batches_are_those_of_pairs_in_memory(
    tokenizer: Any, tmp_path: Path, rows: list[int], small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "SMALL_VOCABULARY", small)
    mapped = mapped_pairs(write(tmp_path / "pairs"), tokenizer, 9)
    encoded = encode_pairs(tokenizer, REFERENCES, CANDIDATES, 9)
    assert {block.itemsize for block in mapped.blocks} == {2 if small > 1 else 4}
    assert len(mapped) == 5 and mapped.truncated == encoded.truncated > 0
    assert numpy.array_equal(mapped.lengths, encoded.lengths)
    taken = mapped.take(numpy.array(rows))
    for found in (mapped.batch(numpy.array(rows), "cpu"), taken.batch(range(len(rows)), "cpu")):
        for name, tensor in encoded.batch(rows, "cpu").items():
            assert found[name].dtype == tensor.dtype and torch.equal(found[name], tensor)
    assert numpy.array_equal(taken.cut, encoded.cut[rows])


def test_a_second_variant_tokenises_nothing(tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = write(tmp_path / "pairs")
    made = list[int]()
    encode = tokens.encode_pairs

    def counted(*arguments: Any) -> Any:
        made.append(len(arguments[1]))
        return encode(*arguments)

    counted.__module__ = encode.__module__
    monkeypatch.setattr(tokens, "encode_pairs", counted)
    first, second = (mapped_pairs(pairs, tokenizer, 9) for _ in range(2))
    assert made == [2, 0, 3] and len(first) == len(second) == 5
    mapped_pairs(pairs, tokenizer, 10)
    assert made == [2, 0, 3] * 2, "another max_tokens"
    mapped_pairs(write(tmp_path / "pairs", (1, 1)), tokenizer, 9)
    assert len(list((work.WORK / "pretrain").iterdir())) == 3, "other pairs"


def test_a_shard_that_a_kill_left_out_is_made(tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = write(tmp_path / "pairs")
    encode = tokens.encode_pairs

    def killed(*arguments: Any) -> Any:
        if len(arguments[1]) == 3:
            raise KeyboardInterrupt
        return encode(*arguments)

    killed.__module__ = encode.__module__
    monkeypatch.setattr(tokens, "encode_pairs", killed)
    with pytest.raises(KeyboardInterrupt):
        mapped_pairs(pairs, tokenizer, 9)
    (folder,) = (work.WORK / "pretrain").iterdir()
    made = sorted(file.name for file in folder.iterdir() if file.suffix != ".lock")
    assert made == ["part-00000.arrow", "part-00001.arrow"]
    monkeypatch.setattr(tokens, "encode_pairs", encode)
    assert len(mapped_pairs(pairs, tokenizer, 9)) == 5


def _lengths(folder: Path, encoder: Path, made: Path) -> list[int]:
    work.WORK = made
    return mapped_pairs(folder, load_tokenizer(encoder), 9).lengths.tolist()


def test_processes_that_start_at_once_share_the_files(tokenizer: Any, tmp_path: Path) -> None:
    pairs = write(tmp_path / "pairs")
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        found = pool.starmap(_lengths, [(pairs, tmp_path / "encoder", tmp_path / "made")] * 4)
    assert found == [encode_pairs(tokenizer, REFERENCES, CANDIDATES, 9).lengths.tolist()] * 4
    (folder,) = (tmp_path / "made" / "pretrain").iterdir()
    assert len(list(folder.glob("*.arrow"))) == 3 and not list(folder.glob("*.tmp"))


def test_a_shard_that_another_process_makes_is_waited_for_at_the_end(tokenizer: Any, tmp_path: Path) -> None:
    pairs = write(tmp_path / "pairs")
    folder = tmp_path / "made" / "pretrain" / f"tokens-{tokens._fingerprint(pairs, tokenizer, 9)}"
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        with tokens._alone(folder / "part-00000.arrow", waits=True):
            found = pool.apply_async(_lengths, (pairs, tmp_path / "encoder", tmp_path / "made"))
            while not (folder / "part-00002.arrow").exists():
                found.wait(0.1)
            assert not found.ready() and not (folder / "part-00000.arrow").exists()
        assert len(found.get(60)) == 5


def test_no_pairs_are_refused(tokenizer: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"pairs: holds no pairs\.$"):
        mapped_pairs(write(tmp_path / "pairs", (0,)), tokenizer, 9)
