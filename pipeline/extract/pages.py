"""Chooses the articles of dumps and stores them in chunks, which are the shards of the cleaning.

One process reads the dumps, one after the other. After a kill, the next run skips dumps whose chunks are all written.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
from tqdm import tqdm

from pipeline.core.shards import table_of, write_shard
from pipeline.core.work import write_json
from pipeline.extract.dump import MAX_PAGE_CHARACTERS, Dump, Page
from pipeline.extract.markup import MEDIA

PAGES = pyarrow.schema(
    [
        pyarrow.field("page_id", pyarrow.int64(), nullable=False),
        pyarrow.field("title", pyarrow.string(), nullable=False),
        pyarrow.field("text", pyarrow.string(), nullable=False),  # wikitext
    ]
)

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
class Chunks:
    """Files of PAGES in order, the accounts of pages, and the namespaces without prose (`media`, in lower case)."""

    files: tuple[Path, ...]
    rows_in: int
    dropped: dict[str, int]
    media: tuple[str, ...]

    @property
    def rows_out(self) -> int:
        return self.rows_in - sum(self.dropped.values())


class PageIds:
    """A set of page ids. It takes about one bit an id, because the ids of a dump are dense."""

    def __init__(self) -> None:
        self._blocks: dict[int, bytearray] = defaultdict(lambda: bytearray(1 << 13))

    def add(self, page_id: int) -> bool:
        """Put `page_id` into the set, and say whether it was new."""
        block, bit = self._blocks[page_id >> 16], page_id & 0xFFFF
        new = not block[bit >> 3] & 1 << (bit & 7)
        block[bit >> 3] |= 1 << (bit & 7)
        return new


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


def write_chunks(dumps: Sequence[Path], pages_per_chunk: int, folder: Path) -> Chunks:
    """Store the articles of `dumps` under `folder`, `pages_per_chunk` in a file.

    A page that is in two dumps is taken once; the second copy is dropped as "duplicate_page".
    """
    seen = PageIds()
    files: list[Path] = []
    rows_in = 0
    dropped: Counter[str] = Counter()
    media = set(MEDIA)
    for number, dump in enumerate(dumps):
        done = folder / f"dump-{number:04d}.json"
        if done.exists():
            account = json.loads(done.read_text(encoding="utf-8"))
            _recall(seen, [folder / name for name in account["files"]])
        else:
            account = _read(dump, number, pages_per_chunk, folder, seen)
            write_json(done, account)
        files += [folder / name for name in account["files"]]
        rows_in += account["rows_in"]
        dropped.update(account["dropped"])
        media.update(account["media"])
    return Chunks(tuple(files), rows_in, dict(sorted(dropped.items())), tuple(sorted(media)))


def _recall(seen: PageIds, files: Sequence[Path]) -> None:
    for file in files:
        for page_id in pyarrow.parquet.read_table(file, columns=["page_id"]).column("page_id").to_pylist():
            seen.add(page_id)


def _read(dump: Path, number: int, pages_per_chunk: int, folder: Path, seen: PageIds) -> dict[str, Any]:
    """Store the articles of one dump; return its account, which is also kept as JSON."""
    reader = Dump(dump)
    names: list[str] = []
    waiting: list[dict[str, Any]] = []
    dropped: Counter[str] = Counter()
    rows_in = 0

    def store() -> None:
        names.append(f"dump-{number:04d}-{len(names):05d}.parquet")
        if not (folder / names[-1]).exists():  # from a run that was killed while it read this dump
            write_shard(folder / names[-1], table_of(waiting, PAGES))
        waiting.clear()

    for page in tqdm(reader.pages(), desc=f"extract {dump.name}", unit="page"):
        rows_in += 1
        reason = drop_reason(page) or (None if seen.add(page.page_id) else "duplicate_page")
        if reason is not None:
            dropped[reason] += 1
            continue
        waiting.append({"page_id": page.page_id, "title": page.title, "text": page.text})
        if len(waiting) == pages_per_chunk:
            store()
    if waiting:
        store()
    return {"files": names, "rows_in": rows_in, "dropped": dict(dropped), "media": sorted(reader.media)}
