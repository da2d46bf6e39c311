"""Cleans chunks of articles and cuts them into sentences, each with its rank; what is dropped is counted by reason."""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow

from pipeline.core import work
from pipeline.core.records import SEGMENTS
from pipeline.core.scripts import main_script
from pipeline.core.shards import generator, table_of
from pipeline.extract.choice import chosen_pages, rank
from pipeline.extract.markup import paragraphs
from pipeline.extract.sentences import drop_reason, sentences

log = logging.getLogger(__name__)

RANKED = pyarrow.schema(
    [
        *SEGMENTS,
        pyarrow.field("rank", pyarrow.uint64(), nullable=False),  # keyed hash of text
        pyarrow.field("article", pyarrow.int64(), nullable=False),  # number of the article in the dumps
    ]
)

_ROWS_AT_ONCE = 10_000  # sentences that are in memory as Python objects


@dataclass(frozen=True)
class CleanParams:
    """What the cleaning of a chunk depends on."""

    min_words: int
    max_words: int
    seed: int
    media: tuple[str, ...]


def clean_chunk(index: int, inputs: Sequence[Path], params: CleanParams) -> work.Outcome:
    """The sentences of one chunk of articles that pass the filters, with their ranks: a table of RANKED.

    `inputs` are those of `choice.chosen_pages`. If the cleaning of a page fails, the page counts as one dropped row,
    "unparsable", and the log names it.
    """
    tables: list[pyarrow.Table] = []
    rows: list[dict[str, Any]] = []
    dropped: Counter[str] = Counter()
    key = generator(params.seed, "extract").bytes(32)
    for article, page in chosen_pages(inputs):
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
                named = {"segment_id": f"{page['page_id']}-{number}", "title": page["title"], "article": article}
                rows.append({**named, "text": sentence, "rank": rank(sentence, key)})
        if len(rows) >= _ROWS_AT_ONCE:
            tables.append(table_of(rows, RANKED))
            rows.clear()
    table = pyarrow.concat_tables([*tables, table_of(rows, RANKED)])
    return work.Outcome(table, table.num_rows + dropped.total(), table.num_rows, dict(dropped))


def _judged(wikitext: str, params: CleanParams) -> list[tuple[str, str | None]]:
    """Every sentence of a page with the reason to drop it, or with None if it stays."""
    text = paragraphs(wikitext, params.media)
    script = main_script(" ".join(text))
    found = [sentence for paragraph in text for sentence in sentences(paragraph)]
    return [(one, drop_reason(one, script, params.min_words, params.max_words)) for one in found]
