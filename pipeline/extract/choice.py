"""Which articles are cleaned, and in which chunks: all of a small dump, a sample of a large one.

A keyed hash of an article's id is its rank, and the lowest ranks are cleaned first, so the articles of a sample depend
on the seed but not on the order of the dump, on chunks or on workers.
"""

import hashlib
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy
import pyarrow
from numpy.typing import NDArray

from pipeline.core.shards import generator, read_shard, shard_name, write_shard
from pipeline.extract.pages import PAGES, Articles

CHOSEN = pyarrow.schema(
    [
        pyarrow.field("shard", pyarrow.int32(), nullable=False),  # of the chunk's own shards, from 0
        pyarrow.field("row", pyarrow.int32(), nullable=False),  # of that shard, from 0
        pyarrow.field("article", pyarrow.int64(), nullable=False),  # its number among all, from 0
    ]
)
PILOT_ARTICLES = 1000
"""Articles of a large dump that are cleaned first, to estimate how many sentences an article has."""

CHUNK_CHARACTERS = 50_000_000
"""Wikitext of a chunk of articles; a chunk ends here or at `pages_per_chunk`, which bounds the memory of a worker."""

_ROWS_AT_ONCE = 64  # pages that are in memory as Python objects


def rank(text: str, key: bytes) -> int:
    """A number from 0 to 2^64 - 1 that looks random, but depends only on the text and `key`; the lowest are sampled."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8, key=key).digest(), "big")


def ranked(articles: Articles, seed: int) -> NDArray[numpy.int64]:
    """Numbers of the articles, without second copies, from the lowest rank to the highest."""
    key = generator(seed, "extract pages").bytes(32)
    numbers = numpy.flatnonzero(articles.fresh)
    ranks = numpy.fromiter((rank(str(one), key) for one in articles.page_ids[numbers].tolist()), numpy.uint64)
    return numbers[numpy.argsort(ranks, kind="stable")]


def next_count(cleaned: int, unique: int, wanted: float, most: int) -> int:
    """How many articles to have cleaned for `wanted` sentences, if the first `cleaned` gave `unique` different ones.

    >>> next_count(1000, 20_000, 50_000, 1_000_000), next_count(1000, 20_000, 50_000, 1800)
    (2500, 1800)
    """
    return min(most, max(math.ceil(cleaned * wanted / max(unique, 1)), cleaned + 1))


def bounds(articles: Articles, pages_per_chunk: int) -> list[tuple[int, int]]:
    """First and last article (exclusive) of every chunk; all articles are in one of them."""
    cuts, pages, size = [0], 0, 0
    for number, characters in enumerate(articles.characters.tolist()):
        if pages and (pages == pages_per_chunk or size + characters > CHUNK_CHARACTERS):
            cuts.append(number)
            pages, size = 0, 0
        pages, size = pages + 1, size + characters
    return list(zip(cuts, [*cuts[1:], len(articles.characters)], strict=True))


def write_chunks(
    articles: Articles, numbers: NDArray[numpy.int64], chunks: Sequence[tuple[int, int]], folder: Path
) -> list[list[Path]]:
    """For each chunk, a table of CHOSEN with those of `numbers` that are in it, and the shards that the table names."""
    numbers = numpy.sort(numbers)
    inputs = []
    for index, (start, end) in enumerate(chunks):
        inside = numbers[numpy.searchsorted(numbers, start) : numpy.searchsorted(numbers, end)]
        places = numpy.searchsorted(articles.firsts, inside, side="right") - 1
        used, own = numpy.unique(places, return_inverse=True)
        table = pyarrow.table([own, inside - articles.firsts[places], inside], CHOSEN.names).cast(CHOSEN)
        write_shard(folder / shard_name(index), table)
        inputs.append([folder / shard_name(index), *(articles.shards[place] for place in used.tolist())])
    return inputs


def chosen_pages(inputs: Sequence[Path]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The number and the row of PAGES of every article of a chunk; `inputs` are its table of CHOSEN and its shards."""
    chosen = read_shard(inputs[0], CHOSEN)
    shards, rows, numbers = (chosen.column(name).to_numpy() for name in CHOSEN.names)
    for index, file in enumerate(inputs[1:]):
        mine = shards == index
        table = read_shard(file, PAGES).take(rows[mine])
        numbered = zip(numbers[mine].tolist(), _one_by_one(table), strict=True)
        del table
        yield from numbered


def _one_by_one(table: pyarrow.Table) -> Iterator[dict[str, Any]]:
    for start in range(0, table.num_rows, _ROWS_AT_ONCE):
        yield from table.slice(start, _ROWS_AT_ONCE).to_pylist()
