"""Finds the articles of dumps and keeps their wikitext in shards, a shard for each part of a dump.

The shards lie under `.work/extract/dumps/<fingerprint>` and do not depend on the params: another sample of the same
dumps reads them, not the dumps. Parts are read in parallel, and a kill costs the parts that are being read.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import pyarrow
import pyarrow.parquet
from numpy.typing import NDArray

from pipeline.core import modules, work
from pipeline.core.outputs import remove_folder
from pipeline.core.shards import list_shards, table_of
from pipeline.extract.blocks import parts_of
from pipeline.extract.dump import MAX_PAGE_CHARACTERS, Dump, Page
from pipeline.extract.markup import MEDIA

PAGES = pyarrow.schema(
    [
        pyarrow.field("page_id", pyarrow.int64(), nullable=False),
        pyarrow.field("title", pyarrow.string(), nullable=False),
        pyarrow.field("characters", pyarrow.int32(), nullable=False),  # of text
        pyarrow.field("text", pyarrow.string(), nullable=False),  # wikitext
    ]
)

DUMPS = "dumps"
"""Folder of the stage's work folder that keeps the articles of dumps."""

_ROWS_AT_ONCE = 256  # pages that are in memory as Python objects

_DISAMBIGUATION = re.compile(
    r"\{\{\s{0,9}(?:[\w -]{0,60}disambig\w{0,20}|dab|disamb|hndis|geodis|numberdis)\s{0,9}[|}]"
    r"|__DISAMBIG__",
    re.IGNORECASE,
)
_LIST_TITLE = re.compile(r"(?:Lists?|Index|Outline|Timeline|Table|Comparison) of ", re.IGNORECASE)
_LIST_TEMPLATE = re.compile(
    r"\{\{\s{0,9}(?:sia|set index(?: article)?|surname|given name|list of lists)\s{0,9}[|}]", re.IGNORECASE
)
_REDIRECT = re.compile(r"\s*#REDIRECT\b", re.IGNORECASE)


@dataclass(frozen=True)
class Articles:
    """n articles, in the order of the dumps, and the accounts of the pages that they were chosen from.

    `shards` are files of PAGES, and `firsts` (shards + 1,) the number of the first article of each, from 0.
    `characters` (n,) are those of the wikitext. `page_ids` (n,) may repeat: `fresh` (n,) is False for a page that an
    earlier dump has. `media` are the namespaces without prose, in lower case.
    """

    shards: tuple[Path, ...]
    firsts: NDArray[numpy.int64]
    page_ids: NDArray[numpy.int64]
    characters: NDArray[numpy.int32]
    fresh: NDArray[numpy.bool_]
    rows_in: int
    dropped: dict[str, int]
    media: tuple[str, ...]


@dataclass(frozen=True)
class Spans:
    """Which part of its dump each shard is read from: bits `start` to `end` of the file, or to its end."""

    spans: tuple[tuple[int, int | None], ...]


def drop_reason(page: Page) -> str | None:
    """Why no sentences are taken from a page; None if it is an article."""
    if page.namespace != "0":
        return "not_article"
    if page.redirect or _REDIRECT.match(page.text):
        return "redirect"
    if page.model != "wikitext":
        return "not_wikitext"
    if len(page.text) > MAX_PAGE_CHARACTERS:
        return "oversized"
    if page.title.lower().endswith("(disambiguation)") or _DISAMBIGUATION.search(page.text):
        return "disambiguation"
    return "list" if _LIST_TITLE.match(page.title) or _LIST_TEMPLATE.search(page.text) else None


def read_articles(dumps: Sequence[Path]) -> Articles:
    """Store the articles of `dumps`, unless an earlier run has, and forget those of other dumps.

    A page that is in two dumps is taken once; the second copy is dropped as "duplicate_page".
    """
    sums = "\x1f".join([modules.code_fingerprint(__name__), *map(work.file_hash, dumps)])
    folder = work.WORK / "extract" / DUMPS / hashlib.sha256(sums.encode()).hexdigest()[:24]
    if not (folder / "counts.json").exists():
        parts = [part for dump in dumps for part in parts_of(dump)]
        spans = Spans(tuple((part.start, part.end) for part in parts))
        work.run_job(work.Job(__name__, read_part, [[part.file] for part in parts], spans, on_device=False), folder)
        for other in folder.parent.iterdir():
            if other != folder:
                remove_folder(other)
    return _articles(folder, {name for dump in dumps for name in namespaces(dump)})


def read_part(index: int, inputs: Sequence[Path], spans: Spans) -> work.Outcome:
    """The articles of one part of a dump: a table of PAGES, and the accounts of all its pages."""
    tables: list[pyarrow.Table] = [PAGES.empty_table()]
    waiting: list[dict[str, Any]] = []
    dropped: Counter[str] = Counter()
    rows_in = 0
    for page in Dump(inputs[0], *spans.spans[index]).pages():
        rows_in += 1
        reason = drop_reason(page)
        if reason is not None:
            dropped[reason] += 1
            continue
        size = {"characters": len(page.text)}
        waiting.append({"page_id": page.page_id, "title": page.title, **size, "text": page.text})
        if len(waiting) == _ROWS_AT_ONCE:
            tables.append(table_of(waiting, PAGES))
            waiting.clear()
    table = pyarrow.concat_tables([*tables, table_of(waiting, PAGES)])
    return work.Outcome(table, rows_in, table.num_rows, dict(dropped))


def namespaces(dump: Path) -> set[str]:
    """Names of the namespaces of files and categories, in lower case, which stand before the first page of a dump."""
    reader = Dump(dump)
    next(reader.pages(), None)
    return reader.media


def _articles(folder: Path, media: set[str]) -> Articles:
    counts = json.loads((folder / "counts.json").read_text(encoding="utf-8"))
    shards = list_shards(folder)
    tables = [pyarrow.parquet.read_table(shard, columns=["page_id", "characters"]) for shard in shards]
    firsts = numpy.cumsum([0, *(table.num_rows for table in tables)])
    page_ids, characters = (pyarrow.concat_tables(tables).column(name).to_numpy() for name in ("page_id", "characters"))
    fresh = numpy.zeros(len(page_ids), dtype=bool)
    fresh[numpy.unique(page_ids, return_index=True)[1]] = True
    twice = {"duplicate_page": int((~fresh).sum())} if not fresh.all() else {}
    dropped = dict(sorted({**counts["dropped"], **twice}.items()))
    names = tuple(sorted({*MEDIA, *media}))
    return Articles(tuple(shards), firsts, page_ids, characters, fresh, counts["rows_in"], dropped, names)
