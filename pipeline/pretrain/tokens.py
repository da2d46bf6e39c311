"""Synthetic pairs in tokens, read from a memory map: made once for all variants and all processes.

The tokens of each shard of pairs are one Arrow file under `.work/pretrain/tokens-<fingerprint>`, where another pair,
another tokenizer or another `max_tokens` means another fingerprint. A file either is whole or does not exist. Processes
that want the same tokens at once share the shards out; after a kill, the next run makes what is missing.
`datasets` maps the files as one table. Pages of a map that have been read count as memory of the process, so ids take
two bytes if the vocabulary allows it.
"""

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import numpy
import pyarrow
import torch
from datasets.arrow_writer import ArrowWriter
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from pipeline.core import modules, work
from pipeline.core.errors import InputError
from pipeline.core.records import PAIRS
from pipeline.core.shards import list_shards, read_shard, replacing
from pipeline.metric.pairs import EncodedPairs, encode_pairs

SMALL_VOCABULARY = 2**16
"""Token ids below this take two bytes each, all others four."""


@dataclass(frozen=True)
class MappedPairs:
    """n pairs in tokens that stay on disk; what is in memory takes about 20 bytes a pair.

    `blocks` are views of the map: ids of the tokens of successive pairs (tokens,). `firsts` (blocks,) is the first pair
    of each block. `starts` (n,) says where each pair begins in its block. `lengths`, `seconds` and `cut` (n,) and
    `pad_id` and `typed` are those of `EncodedPairs`.
    """

    blocks: tuple[NDArray[numpy.integer[Any]], ...]
    firsts: NDArray[numpy.int64]
    starts: NDArray[numpy.int64]
    lengths: NDArray[numpy.int64]
    seconds: NDArray[numpy.int32]
    cut: NDArray[numpy.bool_]
    pad_id: int
    typed: bool

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.lengths)

    @property
    def truncated(self) -> int:
        """Number of pairs that were cut."""
        return int(self.cut.sum())

    def take(self, rows: NDArray[numpy.int64]) -> EncodedPairs:
        """The pairs `rows`, in that order, in memory."""
        places = numpy.searchsorted(self.firsts, rows, side="right") - 1
        lengths = self.lengths[rows]
        spans = zip(places.tolist(), self.starts[rows].tolist(), lengths.tolist(), strict=True)
        ids = numpy.concatenate([self.blocks[place][start : start + length] for place, start, length in spans])
        starts = numpy.zeros(len(rows) + 1, numpy.int64)
        numpy.cumsum(lengths, out=starts[1:])
        return EncodedPairs(
            ids.astype(numpy.int32), starts, self.seconds[rows], self.pad_id, self.typed, self.cut[rows]
        )

    def batch(self, rows: NDArray[numpy.int64], device: str) -> dict[str, torch.Tensor]:
        """Model inputs of `rows`, as `EncodedPairs.batch` makes them."""
        return self.take(rows).batch(range(len(rows)), device)


def mapped_pairs(pairs: Path, tokenizer: PreTrainedTokenizerBase, max_tokens: int) -> MappedPairs:
    """The pairs in the folder `pairs`, tokenised as `encode_pairs` does; an InputError if there are none."""
    shards = list_shards(pairs)
    folder = work.WORK / "pretrain" / f"tokens-{_fingerprint(pairs, tokenizer, max_tokens)}"
    files = [folder / f"{shard.stem}.arrow" for shard in shards]
    missing = [(shard, file) for shard, file in zip(shards, files, strict=True) if not file.exists()]
    if missing and os.environ.get("RANK", "0") == "0":
        print(f"pretrain: {len(missing)} of {len(shards)} shards of pairs to tokenise, for all variants", flush=True)
    for waits in (False, True):  # first what no other process is making, then what the others have not finished
        for shard, file in missing:
            with _alone(file, waits) as alone:
                if alone and not file.exists():
                    table = read_shard(shard, PAIRS)
                    references, candidates = (table.column(name).to_pylist() for name in ("reference", "candidate"))
                    _write(file, encode_pairs(tokenizer, references, candidates, max_tokens), features(len(tokenizer)))
    dataset = datasets.concatenate_datasets([datasets.Dataset.from_file(str(file)) for file in files])
    if not len(dataset):
        raise InputError("holds no pairs", file=pairs)
    return _mapped(dataset, tokenizer)


def _mapped(dataset: datasets.Dataset, tokenizer: PreTrainedTokenizerBase) -> MappedPairs:
    """Views of the Arrow buffers of `dataset`: `dataset[rows]` gives the same rows, but four times as slowly."""
    chunks = [chunk for chunk in dataset.data.column("ids").chunks if len(chunk)]
    offsets = [chunk.offsets.to_numpy().astype(numpy.int64) for chunk in chunks]
    return MappedPairs(
        blocks=tuple(chunk.values.to_numpy(zero_copy_only=True) for chunk in chunks),
        firsts=numpy.cumsum([0, *map(len, chunks)])[:-1],
        starts=numpy.concatenate([one[:-1] for one in offsets]),
        lengths=numpy.concatenate([numpy.diff(one) for one in offsets]),
        seconds=dataset.data.column("second").to_numpy(),
        cut=dataset.data.column("cut").to_numpy(),
        pad_id=tokenizer.pad_token_id or 0,
        typed="token_type_ids" in tokenizer.model_input_names,
    )


def _fingerprint(pairs: Path, tokenizer: PreTrainedTokenizerBase, max_tokens: int) -> str:
    code = modules.code_fingerprint(encode_pairs.__module__)
    parts: Sequence[object] = [code, tokenizer.backend_tokenizer.to_str(), max_tokens, work.file_hash(pairs)]
    return hashlib.sha256("\x1f".join(map(str, parts)).encode()).hexdigest()[:24]


@contextlib.contextmanager
def _alone(file: Path, waits: bool) -> Iterator[bool]:
    """Whether no other process is inside with the same `file`, or True after waiting for it, killed or done."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def features(vocabulary: int) -> datasets.Features:
    """Columns of a file of tokens, whose ids are below `vocabulary`."""
    return datasets.Features(
        {
            "ids": datasets.List(datasets.Value("uint16" if vocabulary <= SMALL_VOCABULARY else "int32")),  # of a pair
            "second": datasets.Value("int32"),  # how many tokens stand before the candidate
            "cut": datasets.Value("bool"),  # whether the pair was longer than max_tokens
        }
    )


def _write(file: Path, encoded: EncodedPairs, columns: datasets.Features) -> None:
    """Write `encoded` as one Arrow file with these `columns`."""
    schema = columns.arrow_schema
    flat = pyarrow.array(encoded.ids).cast(schema.field("ids").type.value_type)
    ids = pyarrow.ListArray.from_arrays(pyarrow.array(encoded.starts, pyarrow.int32()), flat)
    table = pyarrow.table([ids, pyarrow.array(encoded.seconds), pyarrow.array(encoded.cut)], schema)
    with replacing(file) as temporary, ArrowWriter(features=columns, path=str(temporary)) as writer:
        writer.write_table(table, writer_batch_size=max(1, len(encoded)))
        writer.finalize()
