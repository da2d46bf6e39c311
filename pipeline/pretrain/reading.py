"""What pre-training reads: pairs in tokens joined with the labels of their signals, and which of them validate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy
import pyarrow
import pyarrow.compute
import pyarrow.parquet
import torch
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from pipeline.core.errors import InputError
from pipeline.core.records import PAIRS
from pipeline.core.shards import generator, list_shards, read_shard
from pipeline.metric.tasks import Scaling
from pipeline.pretrain.tokens import MappedPairs, mapped_pairs

PAIR_ID = "pair_id"


def signal_columns(labels: Path, signals: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Columns of each signal, as the schema of its shards in `labels/<signal>` names them: all but `pair_id`."""
    found = {}
    for signal in signals:
        shard = list_shards(labels / signal)[0]
        try:
            names = pyarrow.parquet.read_schema(shard).names
        except (pyarrow.ArrowException, OSError) as error:
            raise InputError("not a whole Parquet file", file=shard) from error
        found[signal] = tuple(name for name in names if name != PAIR_ID)
    return found


@dataclass(frozen=True)
class LabelledPairs:
    """n pairs: their tokens, their labels, float32 (n, columns of all signals in order), and the segment of each.

    `segments` holds codes of a dictionary of segment ids, 4 bytes a pair.
    """

    encoded: MappedPairs
    labels: NDArray[numpy.float32]
    segments: pyarrow.DictionaryArray


def read_labelled(
    pairs: Path,
    labels: Path,
    columns: Mapping[str, Sequence[str]],
    tokenizer: PreTrainedTokenizerBase,
    max_tokens: int,
) -> LabelledPairs:
    """Pairs with the labels of the signals in `columns`; one shard of text is in memory at a time.

    An InputError if there are no pairs, or if labels do not belong to the pairs row for row, are not float32 or null.
    """
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())  # Arrow's own would keep for itself what the texts took
    shards = list_shards(pairs)
    for signal in columns:
        if len(list_shards(labels / signal)) != len(shards):
            raise InputError(f"does not label the pairs of {pairs}, shard for shard", file=labels / signal)
    counts = [pyarrow.parquet.read_metadata(shard).num_rows for shard in shards]
    values = numpy.empty((sum(counts), sum(map(len, columns.values()))), numpy.float32)
    segments: list[pyarrow.Array] = []
    row = 0
    for shard, count in zip(shards, counts, strict=True):
        table = read_shard(shard, PAIRS)
        tables = [
            _labels(labels / signal / shard.name, names, table.column(PAIR_ID)) for signal, names in columns.items()
        ]
        found = [column.to_numpy() for one in tables for column in one.columns[1:]]
        values[row : row + count] = numpy.stack(found, axis=1)
        segments += table.column("segment_id").dictionary_encode().chunks
        row += count
    coded = pyarrow.chunked_array(segments, pyarrow.dictionary(pyarrow.int32(), pyarrow.string()))
    encoded = mapped_pairs(pairs, tokenizer, max_tokens)
    return LabelledPairs(encoded, values, coded.unify_dictionaries().combine_chunks())


def _labels(file: Path, columns: Sequence[str], ids: pyarrow.ChunkedArray) -> pyarrow.Table:
    """One shard of labels, `pair_id` and then `columns`, whose pairs must be `ids`."""
    real = [pyarrow.field(name, pyarrow.float32(), nullable=False) for name in columns]
    table = read_shard(file, pyarrow.schema([pyarrow.field(PAIR_ID, pyarrow.string(), nullable=False), *real]))
    if not table.column(PAIR_ID).equals(ids):
        raise InputError("does not label its shard of pairs, row for row", file=file)
    return table


def split_by_segment(
    segments: pyarrow.DictionaryArray, share: float, most: int, seed: int
) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64]]:
    """Rows for training and for validation: all pairs of a segment fall on the same side.

    Validation gets `share` of the segments, drawn by `seed`, but no more than together have `most` pairs. Each side
    gets one segment at least, if there are two.
    """
    codes = segments.indices.to_numpy()
    names = pyarrow.compute.array_sort_indices(segments.dictionary).to_numpy()
    order = names[generator(seed, "pretrain validation").permutation(len(names))]
    wanted = min(max(round(len(names) * share), 1), len(names) - 1)
    pairs = numpy.cumsum(numpy.bincount(codes, minlength=len(names))[order])
    fitting = max(int(numpy.searchsorted(pairs, most, side="right")), 1)
    held = numpy.zeros(len(names), dtype=bool)
    held[order[: min(wanted, fitting)]] = True
    return numpy.flatnonzero(~held[codes]), numpy.flatnonzero(held[codes])


def scaled(targets: NDArray[numpy.float32], scaling: Scaling) -> torch.Tensor:
    """`targets` (rows, columns) with `scaling` applied in float64, as a float32 tensor that shares their memory."""
    for column, (mean, deviation) in enumerate(zip(scaling.mean, scaling.deviation, strict=True)):
        targets[:, column] = (targets[:, column].astype(numpy.float64) - mean) / deviation
    return torch.from_numpy(targets)
