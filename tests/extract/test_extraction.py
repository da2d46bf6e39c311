"""Cleaning a chunk, and the sample: unique, seeded, in the order of the dump, the same in any number of passes."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy
import pytest

from pipeline.core import work
from pipeline.core.errors import ParamsError
from pipeline.core.params import from_mapping
from pipeline.core.records import SEGMENTS
from pipeline.core.shards import read_folder, shard_name, table_of, write_shard
from pipeline.extract import choice, cleaning, extraction
from pipeline.extract.choice import CHOSEN, bounds, chosen_pages, next_count, rank, ranked, write_chunks
from pipeline.extract.cleaning import RANKED, CleanParams, clean_chunk
from pipeline.extract.extraction import ExtractParams, extract
from pipeline.extract.pages import PAGES, Articles

PARAMS = ExtractParams(
    source="d.xml",
    sha256=None,
    segments=None,
    whole_below=10,
    sentences_per_segment=2.0,
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
        ({"sentences_per_segment": 0.5}, "extract.sentences_per_segment: must be at least 1, not 0.5"),
        ({"max_words": 3}, "extract.max_words: must be at least min_words, 4, not 3"),
        ({"seed": 1.5}, "extract.seed: must be int, not 1.5"),
    ],
)
def test_params_out_of_range(changes: dict[str, float], message: str) -> None:
    with pytest.raises(ParamsError, match=f"^{message}\\.$"):
        from_mapping(asdict(PARAMS) | changes, ExtractParams, "extract")


def chunk(folder: Path, *texts: str) -> list[Path]:
    """What a chunk is cleaned from: all pages of one shard."""
    pages = [{"page_id": i, "title": f"Page {i}", "characters": len(t), "text": t} for i, t in enumerate(texts)]
    write_shard(folder / "pages.parquet", table_of(pages, PAGES))
    rows = [{"shard": 0, "row": row, "article": row} for row in range(len(texts))]
    write_shard(folder / "chosen.parquet", table_of(rows, CHOSEN))
    return [folder / "chosen.parquet", folder / "pages.parquet"]


def test_clean_chunk_accounts_for_every_sentence(tmp_path: Path) -> None:
    text = "Rome has grown since then. It is. The {{odd}} city fell later on.\n\nRome has grown since then."
    long_text = " ".join(["Word"] + ["word"] * 9_999) + "."
    outcome = clean_chunk(0, chunk(tmp_path, text, long_text), CleanParams(4, 40, 1, ("file",)))
    rows = outcome.table.to_pylist()
    assert [(r["segment_id"], r["title"], r["text"]) for r in rows] == [
        ("0-1", "Page 0", "Rome has grown since then."),
        ("0-4", "Page 0", "Rome has grown since then."),
    ]
    assert rows[0]["rank"] == rows[1]["rank"]
    assert (outcome.rows_in, outcome.rows_out) == (5, 2)
    assert outcome.dropped == {"too_short": 1, "unknown_template": 1, "too_long": 1}


def test_a_page_that_cannot_be_cleaned_is_counted_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clean = cleaning.paragraphs

    def fails_on_odd(text: str, media: tuple[str, ...]) -> list[str]:
        if text == "odd":
            raise RecursionError
        return clean(text, media)

    monkeypatch.setattr(cleaning, "paragraphs", fails_on_odd)
    texts = ["Rome has grown since then. It is.", "odd", "Rome fell again later on."]
    outcome = clean_chunk(0, chunk(tmp_path, *texts), CleanParams(4, 40, 1, ("file",)))
    assert outcome.table.column("segment_id").to_pylist() == ["0-1", "2-1"]
    assert (outcome.rows_in, outcome.dropped) == (4, {"too_short": 1, "unparsable": 1})
    assert caplog.messages == ["page 1, 'Page 1', is dropped: RecursionError"]


def test_pages_without_blanks_between_words_give_sentences(tmp_path: Path) -> None:
    texts = ["東京は、日本の[[首都]]である。人口はとても多いです。", "北京是中国的首都。他说：“我明天去上海。”"]
    outcome = clean_chunk(0, chunk(tmp_path, *texts), CleanParams(4, 40, 1, ("file",)))
    assert outcome.table.column("text").to_pylist() == [
        "東京は、日本の首都である。",
        "人口はとても多いです。",
        "北京是中国的首都。",
        "他说：“我明天去上海。”",
    ]


def cleaned(folder: Path, *files: list[int]) -> list[Path]:
    for index, ranks in enumerate(files):
        same = {"title": "T", "article": index}
        rows = [{"segment_id": f"{index}-{i}", "text": str(r), "rank": r, **same} for i, r in enumerate(ranks)]
        write_shard(folder / shard_name(index), table_of(rows, RANKED))
    return [folder / shard_name(index) for index in range(len(files))]


@pytest.mark.parametrize("at_once", [1, 2, 1000])
def test_sample_is_unique_lowest_ranks_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(extraction, "RANKS_AT_ONCE", at_once)
    files = cleaned(tmp_path, [2**64 - 1, 5, 2**63], [5, 0, 9], [])
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
    files = cleaned(tmp_path / "in", [1, 2, 3], [4, 5, 6, 7])
    kept, _ = extraction._sample(files, 7, 5)
    extraction._write(files, kept, 2, tmp_path / "out")
    shards = extraction.list_shards(tmp_path / "out")
    texts = [extraction.read_shard(shard, extraction.SEGMENTS).column("text").to_pylist() for shard in shards]
    assert texts == [["1", "2"], ["3", "4"], ["5"]]


def articles(folder: Path, sizes: list[int], second_copies: tuple[int, ...] = (), shard_rows: int = 3) -> Articles:
    """Articles of `sizes` characters, with the ids 100, 101, …, in shards of `shard_rows`."""
    ids = numpy.arange(100, 100 + len(sizes))
    rows = [
        {"page_id": int(i), "title": "T", "characters": size, "text": "x" * size}
        for i, size in zip(ids, sizes, strict=True)
    ]
    parts = [rows[i : i + shard_rows] for i in range(0, len(rows), shard_rows)]
    for index, part in enumerate(parts):
        write_shard(folder / shard_name(index), table_of(part, PAGES))
    fresh = ~numpy.isin(numpy.arange(len(ids)), second_copies)
    firsts = numpy.cumsum([0, *map(len, parts)])
    shards = tuple(folder / shard_name(index) for index in range(len(parts)))
    return Articles(shards, firsts, ids, numpy.array(sizes, numpy.int32), fresh, len(ids), {}, ())


def test_a_chunk_ends_at_its_pages_or_its_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "CHUNK_CHARACTERS", 10)
    assert bounds(articles(tmp_path, [1, 1, 1, 4, 7, 20, 3]), 3) == [(0, 3), (3, 4), (4, 5), (5, 6), (6, 7)]


def test_chosen_articles_are_found_in_their_shards(tmp_path: Path) -> None:
    found = articles(tmp_path, [1, 2, 3, 4, 5, 6, 7])
    inputs = write_chunks(found, numpy.array([6, 1, 3, 2]), [(0, 5), (5, 6), (6, 7)], tmp_path / "chosen")
    pages = [[(number, page["page_id"], len(page["text"])) for number, page in chosen_pages(one)] for one in inputs]
    assert pages == [[(1, 101, 2), (2, 102, 3), (3, 103, 4)], [], [(6, 106, 7)]]
    assert [len(one) for one in inputs] == [3, 1, 2]


def test_articles_are_ranked_by_id_and_seed_alone(tmp_path: Path) -> None:
    one = articles(tmp_path / "a", [1] * 50)
    other = articles(tmp_path / "b", [2] * 60, second_copies=(7,), shard_rows=10)
    order = ranked(one, 1)
    assert sorted(order.tolist()) == list(range(50))
    assert [n for n in ranked(other, 1).tolist() if n < 50] == [n for n in order.tolist() if n != 7]
    assert ranked(one, 2).tolist() != order.tolist() != list(range(50))


def test_too_few_sentences_ask_for_more_articles() -> None:
    assert next_count(10, 20, 100, 1000) == 50
    assert next_count(10, 0, 100, 1000) == 1000
    assert next_count(10, 99, 100, 1000) == 11, "one more at least"


def large(folder: Path, sentences: int) -> Path:
    """A dump of 40 articles with so many sentences each; every third article repeats the one before it."""
    body = "".join(
        f"<page><title>P</title><ns>0</ns><id>{n}</id><revision><text>"
        + " ".join(f"The city number {n - n % 3 % 2} has {i} old bridges." for i in range(sentences))
        + "</text></revision></page>"
        for n in range(1, 41)
    )
    folder.mkdir()
    (folder / "d.xml").write_text(f"<mediawiki>{body}</mediawiki>")
    return folder / "d.xml"


def test_of_a_large_dump_only_a_sample_of_articles_is_cleaned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extraction, "PILOT_ARTICLES", 4)
    source = str(large(tmp_path / "in", 5))
    found = {}
    for pages_per_chunk in (3, 50):
        monkeypatch.setattr(work, "WORK", tmp_path / f"work{pages_per_chunk}")
        sampled = replace(PARAMS, source=source, segments=20, pages_per_chunk=pages_per_chunk)
        found[pages_per_chunk] = extract(sampled, tmp_path / f"out{pages_per_chunk}")
    counts = found[3]
    files = [{file.name: file.read_bytes() for file in (tmp_path / out).iterdir()} for out in ("out3", "out50")]
    assert counts == found[50] and files[0] == files[1], "chunks change nothing"
    assert 4 < counts["pages"]["rows_out"] < 20, "20 segments of 10 sentences in two articles, twice as many cleaned"
    assert counts["pages"]["dropped"] == {"not_sampled": 40 - counts["pages"]["rows_out"]}
    ids = read_folder(tmp_path / "out3", SEGMENTS).column("segment_id").to_pylist()
    assert len(ids) == 20
    assert ids == sorted(ids, key=lambda one: tuple(map(int, one.split("-")))), "in the order of the dump"
    whole = extract(replace(PARAMS, source=source, segments=20, whole_below=40), tmp_path / "whole")
    assert whole["pages"] == {"rows_in": 40, "rows_out": 40, "dropped": {}}


def test_too_few_sentences_in_the_sample_are_topped_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extraction, "PILOT_ARTICLES", 2)
    monkeypatch.setattr(work, "WORK", tmp_path / "work")
    rounds: list[int] = []
    clean = extraction._clean

    def counted(params: Any, articles: Any, numbers: Any, *rest: Any) -> None:
        rounds.append(len(numbers))
        clean(params, articles, numbers, *rest)

    monkeypatch.setattr(extraction, "_clean", counted)
    scarce = replace(PARAMS, source=str(large(tmp_path / "in", 2)), segments=50, sentences_per_segment=1.0)
    counts = extract(scarce, tmp_path / "out")
    assert counts["rows_out"] == 50 and len(rounds) > 2, "a third of the articles are copies, which the pilot hides"
    assert sum(rounds) == counts["pages"]["rows_out"] < 40
