"""Takes segments out of Wikipedia articles: the sentences that pairs are made from (section 4.1: 1.8 M segments).

The dumps are read once into chunks of pages. Each chunk is cleaned and cut into sentences. Equal sentences are kept
once. A sample is drawn from the sentences that are kept. A keyed hash of a sentence's text is its rank, and the lowest
ranks are in the sample. So equal sentences have equal ranks, the sample depends on the seed but not on any order, and a
sample of N sentences is part of every larger one. The segments keep the order of the dump.
"""

import hashlib
import json
import logging
import math
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy
import pyarrow
import pyarrow.parquet
from pydantic import model_validator

from pipeline.core import modules, work
from pipeline.core.errors import InputError
from pipeline.core.params import AtLeastOne, params
from pipeline.core.records import SEGMENTS
from pipeline.core.scripts import main_script
from pipeline.core.shards import generator, list_shards, read_shard, shard_name, table_of, write_shard
from pipeline.extract.dump import dump_files
from pipeline.extract.markup import paragraphs
from pipeline.extract.pages import PAGES, Chunks, write_chunks
from pipeline.extract.sentences import drop_reason, sentences

log = logging.getLogger(__name__)

MODULE = "pipeline.extract.__main__"
RANKED = SEGMENTS.append(pyarrow.field("rank", pyarrow.uint64(), nullable=False))  # keyed hash of text
RANKS_AT_ONCE = 10_000_000
"""Ranks that are sorted at once. More sentences take more passes over the ranks, not more memory."""


@params
class ExtractParams:
    """The section `extract` of params.yaml."""

    source: str  # of dumps, as pipeline.extract.dump describes it
    sha256: str | None  # of the dump; required of a URL
    segments: AtLeastOne | None  # sentences to sample; null for all
    min_words: AtLeastOne  # of a sentence, as core.scripts.word_count counts
    max_words: AtLeastOne
    segments_per_shard: AtLeastOne
    pages_per_chunk: AtLeastOne  # articles that are cleaned in one piece
    seed: int

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.max_words < self.min_words:
            raise ValueError(f"max_words: must be at least min_words, {self.min_words}, not {self.max_words}")
        return self


@dataclass(frozen=True)
class CleanParams:
    """What the cleaning of a chunk depends on."""

    min_words: int
    max_words: int
    seed: int
    media: tuple[str, ...]


def extract(params: ExtractParams, out: Path) -> dict[str, Any]:
    """Write the segments to `out/part-*.parquet` and the accounts to `out/counts.json`; return the accounts.

    `rows_in`, `rows_out` and `dropped` count sentences; the same three under `pages` count the pages of the dumps.
    An InputError if no article or no sentence is left.
    """
    dumps = dump_files(params.source, params.sha256)
    folder = work.WORK / "extract" / _fingerprint(params, dumps)
    chunks = write_chunks(dumps, params.pages_per_chunk, folder)
    if not chunks.files:
        raise InputError(f"no article is left of {chunks.rows_in} pages ({_told(chunks.dropped)})", file=params.source)
    cleaned = _cleaned(params, chunks, folder)
    counts = json.loads((cleaned / "counts.json").read_text(encoding="utf-8"))
    if not counts["rows_out"]:
        problem = f"no sentence is left of {counts['rows_in']} ({_told(counts['dropped'])})"
        raise InputError(problem, file=params.source)
    kept, duplicates = _sample(list_shards(cleaned), counts["rows_out"], params.segments)
    more = {"duplicate": duplicates, "not_sampled": counts["rows_out"] - duplicates - len(kept)}
    result = {
        "rows_in": counts["rows_in"],
        "rows_out": len(kept),
        "dropped": dict(sorted({**counts["dropped"], **{name: n for name, n in more.items() if n}}.items())),
        "pages": {"rows_in": chunks.rows_in, "rows_out": chunks.rows_out, "dropped": chunks.dropped},
    }
    _write(cleaned, kept, params.segments_per_shard, out)
    work.write_json(out / "counts.json", result)
    return result


def clean_chunk(index: int, inputs: Sequence[Path], params: CleanParams) -> work.Outcome:
    """The sentences of one chunk of pages that pass the filters, with their ranks: a table of RANKED.

    If the cleaning of a page fails, the page counts as one dropped row, "unparsable", and the log names it.
    """
    rows: list[dict[str, Any]] = []
    dropped: Counter[str] = Counter()
    key = generator(params.seed, "extract").bytes(32)
    for page in read_shard(inputs[0], PAGES).to_pylist():
        try:
            judged = _judged(page["text"], params)
        except MemoryError:
            raise
        except Exception as error:  # anybody writes wikitext: one odd page must not end a run of days
            log.warning("page %d, %r, is dropped: %s", page["page_id"], page["title"], type(error).__name__)
            dropped["unparsable"] += 1
            continue
        dropped.update(reason for _, reason in judged if reason is not None)
        for number, (sentence, reason) in enumerate(judged, start=1):
            if reason is None:
                named = {"segment_id": f"{page['page_id']}-{number}", "title": page["title"]}
                rows.append({**named, "text": sentence, "rank": rank(sentence, key)})
    return work.Outcome(table_of(rows, RANKED), len(rows) + dropped.total(), len(rows), dict(dropped))


def _judged(wikitext: str, params: CleanParams) -> list[tuple[str, str | None]]:
    """Every sentence of a page with the reason to drop it, or with None if it stays."""
    text = paragraphs(wikitext, params.media)
    script = main_script(" ".join(text))
    found = [sentence for paragraph in text for sentence in sentences(paragraph)]
    return [(one, drop_reason(one, script, params.min_words, params.max_words)) for one in found]


def rank(sentence: str, key: bytes) -> int:
    """A number from 0 to 2^64 - 1 that looks random, but depends only on the text and `key`; the lowest are sampled."""
    return int.from_bytes(hashlib.blake2b(sentence.encode(), digest_size=8, key=key).digest(), "big")


def _fingerprint(params: ExtractParams, dumps: Sequence[Path]) -> str:
    parts = [repr(asdict(params)), modules.code_fingerprint(MODULE), *map(work.file_hash, dumps)]
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:24]


def _told(dropped: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(dropped.items())) or "there are none"


def _cleaned(params: ExtractParams, chunks: Chunks, folder: Path) -> Path:
    """The folder of cleaned chunks. A resumable job makes it, unless an earlier run has finished it."""
    cleaned = folder / "sentences"
    if not (cleaned / "counts.json").exists():
        clean = CleanParams(params.min_words, params.max_words, params.seed, chunks.media)
        job = work.Job(MODULE, clean_chunk, [[file] for file in chunks.files], clean, on_device=False)
        work.run_job(job, cleaned)
    return cleaned


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


def _write(cleaned: Path, kept: numpy.ndarray[Any, Any], rows_per_shard: int, out: Path) -> None:
    """Write the rows `kept` of the cleaned chunks as shards of SEGMENTS, with one chunk and one shard in memory."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    waiting = SEGMENTS.empty_table()
    shards = 0
    for table in _kept_tables(cleaned, kept):
        waiting = pyarrow.concat_tables([waiting, table])
        while waiting.num_rows >= rows_per_shard:
            write_shard(out / shard_name(shards), waiting.slice(0, rows_per_shard).combine_chunks())
            waiting = waiting.slice(rows_per_shard).combine_chunks()
            shards += 1
    if waiting.num_rows:
        write_shard(out / shard_name(shards), waiting.combine_chunks())


def _kept_tables(cleaned: Path, kept: numpy.ndarray[Any, Any]) -> Iterator[pyarrow.Table]:
    """The rows `kept` of each cleaned chunk, without their ranks."""
    offset = 0
    for file in list_shards(cleaned):
        table = read_shard(file, RANKED)
        low, high = numpy.searchsorted(kept, [offset, offset + table.num_rows])
        yield table.take(kept[low:high] - offset).select(SEGMENTS.names).cast(SEGMENTS)
        offset += table.num_rows
