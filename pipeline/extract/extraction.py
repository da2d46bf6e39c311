"""Takes segments out of Wikipedia articles: the sentences that pairs are made from (section 4.1: 1.8 M segments).

The articles of the dumps are read into shards. Chunks of articles are cleaned and cut into sentences. Equal sentences
are kept once. A sample is drawn from the sentences that are kept. A keyed hash of a sentence's text is its rank, and
the lowest ranks are in the sample. So equal sentences have equal ranks, the sample depends on the seed but not on any
order, and a sample of N sentences is part of every larger one from the same articles. The segments keep the order of
the dump.

Of a dump with more than `whole_below` articles, only a sample of the articles is cleaned, by their ranks: as many as
have `sentences_per_segment` sentences for every segment that is wanted. A first thousand articles tell how many that
are; if there are then still too few sentences, more articles are cleaned.
"""

import hashlib
import json
import math
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Self

import numpy
import pyarrow
import pyarrow.parquet
from numpy.typing import NDArray
from pydantic import Field, model_validator

from pipeline.core import modules, work
from pipeline.core.errors import InputError
from pipeline.core.outputs import remove_folder
from pipeline.core.params import AtLeastOne, AtLeastZero, params
from pipeline.core.records import SEGMENTS
from pipeline.core.shards import list_shards, read_shard, shard_name, write_shard
from pipeline.extract.choice import PILOT_ARTICLES, bounds, next_count, ranked, write_chunks
from pipeline.extract.cleaning import RANKED, CleanParams, clean_chunk
from pipeline.extract.dump import dump_files
from pipeline.extract.pages import DUMPS, Articles, read_articles

MODULE = "pipeline.extract.__main__"
RANKS_AT_ONCE = 10_000_000
"""Ranks that are sorted at once. More sentences take more passes over the ranks, not more memory."""


@params
class ExtractParams:
    """The section `extract` of params.yaml."""

    source: str  # of dumps, as pipeline.extract.dump describes it
    sha256: str | None  # of the dump; required of a URL
    segments: AtLeastOne | None  # sentences to sample; null for all
    whole_below: AtLeastZero  # dumps of at most so many articles are cleaned whole
    sentences_per_segment: Annotated[float, Field(ge=1)]  # of a larger dump, sentences to clean for each segment
    min_words: AtLeastOne  # of a sentence, as core.scripts.word_count counts
    max_words: AtLeastOne
    segments_per_shard: AtLeastOne
    pages_per_chunk: AtLeastOne  # articles that are cleaned in one piece; fewer if they are long
    seed: int

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.max_words < self.min_words:
            raise ValueError(f"max_words: must be at least min_words, {self.min_words}, not {self.max_words}")
        return self


def extract(params: ExtractParams, out: Path) -> dict[str, Any]:
    """Write the segments to `out/part-*.parquet` and the accounts to `out/counts.json`; return the accounts.

    `rows_in`, `rows_out` and `dropped` count sentences; the same three under `pages` count the pages of the dumps.
    An InputError if no article or no sentence is left.
    """
    dumps = dump_files(params.source, params.sha256)
    articles = read_articles(dumps)
    if not articles.fresh.any():
        problem = f"no article is left of {articles.rows_in} pages ({_told(articles.dropped)})"
        raise InputError(problem, file=params.source)
    folder = work.WORK / "extract" / _fingerprint(params, dumps)
    cleaned, pages = _cleaned(params, articles, folder)
    rows_in, dropped = _counts(cleaned)
    rows = rows_in - sum(dropped.values())
    if not rows:
        raise InputError(f"no sentence is left of {rows_in} ({_told(dropped)})", file=params.source)
    files = _in_order(cleaned, folder / "ordered")
    kept, duplicates = _sample(files, rows, params.segments)
    skipped = {"not_sampled": int(articles.fresh.sum()) - pages}
    more = {"duplicate": duplicates, "not_sampled": rows - duplicates - len(kept)}
    result = {
        "rows_in": rows_in,
        "rows_out": len(kept),
        "dropped": _with(dropped, more),
        "pages": {"rows_in": articles.rows_in, "rows_out": pages, "dropped": _with(articles.dropped, skipped)},
    }
    _write(files, kept, params.segments_per_shard, out)
    work.write_json(out / "counts.json", result)
    return result


def forget(*, keep_articles: bool) -> None:
    """Remove the stage's work folder, but for the articles of the dumps if they are kept for the next sample."""
    if not keep_articles:
        remove_folder(work.WORK / "extract")
        return
    for folder in (work.WORK / "extract").iterdir():
        if folder.name != DUMPS:
            remove_folder(folder)


def _fingerprint(params: ExtractParams, dumps: Sequence[Path]) -> str:
    parts = [repr(asdict(params)), modules.code_fingerprint(MODULE), *map(work.file_hash, dumps)]
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:24]


def _told(dropped: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(dropped.items())) or "there are none"


def _with(dropped: dict[str, int], more: dict[str, int]) -> dict[str, int]:
    return dict(sorted({**dropped, **{name: count for name, count in more.items() if count}}.items()))


def _cleaned(params: ExtractParams, articles: Articles, folder: Path) -> tuple[list[Path], int]:
    """Folders of cleaned chunks, one for each round, and the number of articles that were cleaned in all of them."""
    order = ranked(articles, params.seed)
    wanted = params.segments if len(order) > params.whole_below else None
    chunks = bounds(articles, params.pages_per_chunk)
    done, count = 0, len(order) if wanted is None else min(PILOT_ARTICLES, len(order))
    rounds: list[Path] = []
    while True:
        rounds.append(folder / f"sentences-{len(rounds)}")
        _clean(params, articles, order[done:count], chunks, rounds[-1])
        if wanted is None or count == len(order):
            return rounds, count
        unique, aim = _unique(rounds), wanted * params.sentences_per_segment
        if unique >= (aim if len(rounds) == 1 else wanted):
            return rounds, count
        done, count = count, next_count(count, unique, aim, len(order))


def _clean(
    params: ExtractParams,
    articles: Articles,
    numbers: NDArray[numpy.int64],
    chunks: Sequence[tuple[int, int]],
    out: Path,
) -> None:
    """Clean the articles `numbers`. A resumable job does it, unless an earlier run has finished it."""
    if not (out / "counts.json").exists():
        inputs = write_chunks(articles, numbers, chunks, out.with_name(f"{out.name}-chosen"))
        clean = CleanParams(params.min_words, params.max_words, params.seed, articles.media)
        work.run_job(work.Job(MODULE, clean_chunk, inputs, clean, on_device=False), out)


def _counts(rounds: Sequence[Path]) -> tuple[int, dict[str, int]]:
    """Sentences that all rounds found, and those that they dropped, by reason."""
    found = [json.loads((one / "counts.json").read_text(encoding="utf-8")) for one in rounds]
    names = sorted({name for counts in found for name in counts["dropped"]})
    dropped = {name: sum(counts["dropped"].get(name, 0) for counts in found) for name in names}
    return sum(counts["rows_in"] for counts in found), dropped


def _unique(rounds: Sequence[Path]) -> int:
    """How many different sentences all rounds have together."""
    rows_in, dropped = _counts(rounds)
    rows = rows_in - sum(dropped.values())
    return rows - _sample([file for one in rounds for file in list_shards(one)], rows, None)[1]


def _in_order(rounds: Sequence[Path], folder: Path) -> list[Path]:
    """The cleaned chunks, each with the articles of all rounds in the order of the dump."""
    if len(rounds) == 1:
        return list_shards(rounds[0])
    for files in zip(*map(list_shards, rounds), strict=True):
        table = pyarrow.concat_tables([read_shard(file, RANKED) for file in files])
        order = numpy.argsort(table.column("article").to_numpy(), kind="stable")
        write_shard(folder / files[0].name, table.take(order))
    return list_shards(folder)


def _sample(files: Sequence[Path], rows: int, wanted: int | None) -> tuple[numpy.ndarray[Any, Any], int]:
    """Ascending row numbers, over all files, of the `wanted` unique sentences of lowest rank; the number of duplicates.

    Of sentences with equal ranks the first is kept. Two different sentences have equal ranks by a chance of 1 in 2^64.
    """
    passes = max(1, math.ceil(rows / RANKS_AT_ONCE))
    kept: list[numpy.ndarray[Any, Any]] = []
    room, duplicates = rows if wanted is None else wanted, 0
    for part in range(passes):
        ranks, numbers = _ranks_between(files, part * 2**64 // passes, (part + 1) * 2**64 // passes - 1)
        unique, first = numpy.unique(ranks, return_index=True)  # ascending by rank, first occurrence of each
        duplicates += len(ranks) - len(unique)
        kept.append(numbers[first][:room])
        room -= len(kept[-1])
    return numpy.sort(numpy.concatenate(kept)), duplicates


def _ranks_between(files: Sequence[Path], low: int, high: int) -> tuple[Any, Any]:
    """Ranks from `low` to `high`, and the numbers of their rows over all files; uint64 (n,) and int64 (n,)."""
    ranks: list[Any] = []
    numbers: list[Any] = []
    offset = 0
    for file in files:
        column = pyarrow.parquet.read_table(file, columns=["rank"]).column("rank").to_numpy()
        inside = numpy.flatnonzero((column >= numpy.uint64(low)) & (column <= numpy.uint64(high)))
        ranks.append(column[inside])
        numbers.append(inside + offset)
        offset += len(column)
    return numpy.concatenate(ranks), numpy.concatenate(numbers)


def _write(files: Sequence[Path], kept: numpy.ndarray[Any, Any], rows_per_shard: int, out: Path) -> None:
    """Write the rows `kept` of the cleaned chunks `files` as shards of SEGMENTS; one of each is in memory at a time."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    waiting = SEGMENTS.empty_table()
    shards = 0
    for table in _kept_tables(files, kept):
        waiting = pyarrow.concat_tables([waiting, table])
        while waiting.num_rows >= rows_per_shard:
            write_shard(out / shard_name(shards), waiting.slice(0, rows_per_shard).combine_chunks())
            waiting = waiting.slice(rows_per_shard).combine_chunks()
            shards += 1
    if waiting.num_rows:
        write_shard(out / shard_name(shards), waiting.combine_chunks())


def _kept_tables(files: Sequence[Path], kept: numpy.ndarray[Any, Any]) -> Iterator[pyarrow.Table]:
    """The rows `kept` of each cleaned chunk, without their ranks."""
    offset = 0
    for file in files:
        table = read_shard(file, RANKED)
        low, high = numpy.searchsorted(kept, [offset, offset + table.num_rows])
        yield table.take(kept[low:high] - offset).select(SEGMENTS.names).cast(SEGMENTS)
        offset += table.num_rows
