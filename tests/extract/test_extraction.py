"""Cleaning a chunk, and the sample: unique, seeded, in the order of the dump, the same in any number of passes."""

from dataclasses import asdict
from pathlib import Path

import pytest

from pipeline.core.errors import ParamsError
from pipeline.core.params import from_mapping
from pipeline.core.shards import shard_name, table_of, write_shard
from pipeline.extract import extraction
from pipeline.extract.extraction import RANKED, CleanParams, ExtractParams, clean_chunk, rank
from pipeline.extract.pages import PAGES

PARAMS = ExtractParams(
    source="d.xml",
    sha256=None,
    segments=None,
    min_words=4,
    max_words=40,
    segments_per_shard=10,
    pages_per_chunk=2,
    seed=1,
)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"min_words": 0}, "extract.min_words: must be at least 1, not 0"),
        ({"pages_per_chunk": 0}, "extract.pages_per_chunk: must be at least 1, not 0"),
        ({"segments": 0}, "extract.segments: must be at least 1, not 0"),
        ({"max_words": 3}, "extract.max_words: must be at least min_words, 4, not 3"),
        ({"seed": 1.5}, "extract.seed: must be int, not 1.5"),
    ],
)
def test_params_out_of_range(changes: dict[str, float], message: str) -> None:
    with pytest.raises(ParamsError, match=f"^{message}\\.$"):
        from_mapping(asdict(PARAMS) | changes, ExtractParams, "extract")


def test_clean_chunk_accounts_for_every_sentence(tmp_path: Path) -> None:
    text = "Rome has grown since then. It is. The {{odd}} city fell later on.\n\nRome has grown since then."
    long_text = " ".join(["Word"] + ["word"] * 9_999) + "."
    pages = [{"page_id": 7, "title": "Rome", "text": text}, {"page_id": 8, "title": "Long", "text": long_text}]
    write_shard(tmp_path / "c.parquet", table_of(pages, PAGES))
    outcome = clean_chunk(0, [tmp_path / "c.parquet"], CleanParams(4, 40, 1, ("file",)))
    rows = outcome.table.to_pylist()
    assert [(r["segment_id"], r["title"], r["text"]) for r in rows] == [
        ("7-1", "Rome", "Rome has grown since then."),
        ("7-4", "Rome", "Rome has grown since then."),
    ]
    assert rows[0]["rank"] == rows[1]["rank"]
    assert (outcome.rows_in, outcome.rows_out) == (5, 2)
    assert outcome.dropped == {"too_short": 1, "unknown_template": 1, "too_long": 1}


def test_a_page_that_cannot_be_cleaned_is_counted_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clean = extraction.paragraphs

    def fails_on_odd(text: str, media: tuple[str, ...]) -> list[str]:
        if text == "odd":
            raise RecursionError
        return clean(text, media)

    monkeypatch.setattr(extraction, "paragraphs", fails_on_odd)
    texts = ["Rome has grown since then. It is.", "odd", "Rome fell again later on."]
    pages = [{"page_id": i, "title": f"Page {i}", "text": text} for i, text in enumerate(texts)]
    write_shard(tmp_path / "c.parquet", table_of(pages, PAGES))
    outcome = clean_chunk(0, [tmp_path / "c.parquet"], CleanParams(4, 40, 1, ("file",)))
    assert outcome.table.column("segment_id").to_pylist() == ["0-1", "2-1"]
    assert (outcome.rows_in, outcome.dropped) == (4, {"too_short": 1, "unparsable": 1})
    assert caplog.messages == ["page 1, 'Page 1', is dropped: RecursionError"]


def test_pages_without_blanks_between_words_give_sentences(tmp_path: Path) -> None:
    texts = ["東京は、日本の[[首都]]である。人口はとても多いです。", "北京是中国的首都。他说：“我明天去上海。”"]
    pages = [{"page_id": i, "title": "T", "text": text} for i, text in enumerate(texts)]
    write_shard(tmp_path / "c.parquet", table_of(pages, PAGES))
    outcome = clean_chunk(0, [tmp_path / "c.parquet"], CleanParams(4, 40, 1, ("file",)))
    assert outcome.table.column("text").to_pylist() == [
        "東京は、日本の首都である。",
        "人口はとても多いです。",
        "北京是中国的首都。",
        "他说：“我明天去上海。”",
    ]


def ranked(folder: Path, *files: list[int]) -> list[Path]:
    for index, ranks in enumerate(files):
        rows = [{"segment_id": f"{index}-{i}", "title": "T", "text": str(r), "rank": r} for i, r in enumerate(ranks)]
        write_shard(folder / shard_name(index), table_of(rows, RANKED))
    return [folder / shard_name(index) for index in range(len(files))]


@pytest.mark.parametrize("at_once", [1, 2, 1000])
def test_sample_is_unique_lowest_ranks_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(extraction, "RANKS_AT_ONCE", at_once)
    files = ranked(tmp_path, [2**64 - 1, 5, 2**63], [5, 0, 9], [])
    rows = {n: extraction._sample(files, 6, n) for n in (None, 2, 3)}
    assert {n: (kept.tolist(), duplicates) for n, (kept, duplicates) in rows.items()} == {
        None: ([0, 1, 2, 4, 5], 1),
        2: ([1, 4], 1),
        3: ([1, 4, 5], 1),
    }


def test_rank_depends_only_on_text_and_key() -> None:
    assert rank("Rome.", b"k" * 32) == rank("Rome.", b"k" * 32)
    assert len({rank("Rome.", b"k" * 32), rank("Roma.", b"k" * 32), rank("Rome.", b"l" * 32)}) == 3


def test_shards_are_cut_across_chunks(tmp_path: Path) -> None:
    files = ranked(tmp_path / "in", [1, 2, 3], [4, 5, 6, 7])
    kept, _ = extraction._sample(files, 7, 5)
    extraction._write(tmp_path / "in", kept, 2, tmp_path / "out")
    shards = extraction.list_shards(tmp_path / "out")
    texts = [extraction.read_shard(shard, extraction.SEGMENTS).column("text").to_pylist() for shard in shards]
    assert texts == [["1", "2"], ["3", "4"], ["5"]]
