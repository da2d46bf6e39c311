"""Dumps: where they are found, their pages and namespaces, and one clear sentence for each kind of bad dump."""

import bz2
import hashlib
import random
import re
import tracemalloc
from pathlib import Path

import pytest

from pipeline.core import work
from pipeline.core.errors import InputError, ParamsError
from pipeline.core.shards import read_shard
from pipeline.extract import blocks
from pipeline.extract.blocks import parts_of
from pipeline.extract.dump import MAX_PAGE_CHARACTERS, Dump, Page, dump_files
from pipeline.extract.pages import PAGES, drop_reason, read_articles

HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11">
<siteinfo><namespaces><namespace key="0"/><namespace key="6">Datei</namespace><namespace key="1">Diskussion</namespace>
</namespaces></siteinfo>
"""


def page(number: int, text: str, title: str = "Rome", ns: str = "0", extra: str = "") -> str:
    return (
        f"<page><title>{title}</title><ns>{ns}</ns><id>{number}</id>{extra}"
        f"<revision><id>99</id><contributor><id>7</id></contributor><text>{text}</text></revision></page>\n"
    )


def write(file: Path, body: str | bytes) -> Path:
    raw = body if isinstance(body, bytes) else (HEAD + body + "</mediawiki>").encode()
    file.write_bytes(bz2.compress(raw) if file.suffix == ".bz2" else raw)
    return file


def test_file_and_its_checksum(tmp_path: Path) -> None:
    file = write(tmp_path / "d.xml", page(1, "a"))
    found = hashlib.sha256(file.read_bytes()).hexdigest()
    assert dump_files(str(file), None) == [file]
    assert dump_files(str(file), found.upper()) == [file]
    with pytest.raises(InputError, match=f"d.xml: has SHA-256 {found}, expected {'0' * 64}"):
        dump_files(str(file), "0" * 64)


def test_folder_holds_only_dumps_in_order(tmp_path: Path) -> None:
    names = ["b.xml", "a.xml.bz2", "c.xml-p10p20.bz2", "c.xml-p1-short", "notes.txt", "index.txt.bz2", "d.xml.7z"]
    for name in names:
        (tmp_path / name).touch()
    (tmp_path / "e.xml").mkdir()
    found = [file.name for file in dump_files(str(tmp_path), None)]
    assert found == ["a.xml.bz2", "b.xml", "c.xml-p1-short", "c.xml-p10p20.bz2"]
    with pytest.raises(ParamsError, match=r"extract\.sha256: must be null if the source is a folder"):
        dump_files(str(tmp_path), "0" * 64)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.xml: no such file or folder\."):
        dump_files(str(tmp_path / "gone.xml"), None)
    with pytest.raises(InputError, match=r"no \*\.xml or \*\.xml\.bz2 in this folder\."):
        dump_files(str(tmp_path), None)


def test_gensim_carries_a_dump() -> None:
    name = "enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"
    (found,) = dump_files(f"gensim:{name}", None)
    assert (found.name, found.stat().st_size) == (name, 1_695_871)
    with pytest.raises(InputError, match="no such file or folder"):
        dump_files("gensim:nothing.xml", None)


@pytest.mark.parametrize("sha256", [None, "1" * 63, "x" * 64])
def test_a_url_needs_its_checksum(sha256: str | None) -> None:
    with pytest.raises(ParamsError, match=rf"extract\.sha256: a URL needs its SHA-256 .* not {sha256!r}\."):
        dump_files("http://127.0.0.1:1/d.xml", sha256)


@pytest.mark.parametrize("name", ["d.xml", "d.xml.bz2"])
def test_pages(tmp_path: Path, name: str) -> None:
    body = page(12, "A &amp; &lt;b&gt; é") + page(13, "#REDIRECT [[A]]", extra='<redirect title="A"/>', ns="4")
    dump = Dump(write(tmp_path / name, body))
    assert list(dump.pages()) == [
        Page(12, "Rome", "0", False, "wikitext", "A & <b> é", 4),
        Page(13, "Rome", "4", True, "wikitext", "#REDIRECT [[A]]", 5),
    ]
    assert dump.media == {"datei"}


def test_several_revisions_give_the_last(tmp_path: Path) -> None:
    revisions = "<revision><text>old</text></revision>"
    (found,) = Dump(write(tmp_path / "d.xml", page(1, "new", extra=revisions))).pages()
    assert found.text == "new"


def test_concatenated_bz2_streams(tmp_path: Path) -> None:
    file = tmp_path / "d.xml.bz2"
    file.write_bytes(
        bz2.compress((HEAD + page(1, "a")).encode()) + bz2.compress((page(2, "b") + "</mediawiki>").encode())
    )
    assert [p.page_id for p in Dump(file).pages()] == [1, 2]


LAUGHS = '<!DOCTYPE m [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>\n<mediawiki>&b;</mediawiki>'


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "d.xml, line 1: not a MediaWiki dump, as XML no element found."),
        (b"hello there", "d.xml, line 1: not a MediaWiki dump, as XML syntax error."),
        (b"<html>\n</html>", "d.xml, line 1: not a MediaWiki dump, whose root element is mediawiki: 'html'."),
        (LAUGHS.encode(), "d.xml, line 1: declares an XML entity, which no MediaWiki dump does: 'a'."),
        ((HEAD + page(1, "a")).encode(), "d.xml, line 5: the dump is cut off."),
        ((HEAD + "<page><title>x").encode(), "d.xml, line 4: the dump is cut off."),
        ((HEAD + "<page></x>").encode(), "d.xml, line 4: not a MediaWiki dump, as XML mismatched tag."),
        ((HEAD + "\n").encode() + b"<page>\xff", r"d.xml, line 5: not valid UTF-8: b'\xff'."),
        ((HEAD + page(1, "a", title="")).encode(), "d.xml, line 4: a page without title."),
        (
            (HEAD + page(1, "a").replace("<id>1<", "<id>one<")).encode(),
            "d.xml, line 4: a page id must be a number: 'one'.",
        ),
        ((HEAD + "<a>" * 30).encode(), "d.xml, line 4: elements are nested deeper than in any MediaWiki dump: 'a'."),
    ],
)
def test_bad_dump(tmp_path: Path, body: bytes, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message) + "$"):
        list(Dump(write(tmp_path / "d.xml", body)).pages())


def test_truncated_bz2(tmp_path: Path) -> None:
    file = write(tmp_path / "d.xml.bz2", page(1, "a" * 1000))
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"d\.xml\.bz2: the bz2 file is cut off\.$"):
        list(Dump(file).pages())


def test_damaged_bz2(tmp_path: Path) -> None:
    file = tmp_path / "d.xml.bz2"
    file.write_bytes(b"BZh9" + b"nonsense" * 20)
    with pytest.raises(InputError, match=r"d\.xml\.bz2: cannot be read \(Invalid data stream\)\.$"):
        list(Dump(file).pages())


def test_memory_does_not_grow_with_the_dump(tmp_path: Path) -> None:
    peaks = []
    for count in (200, 2000):
        file = write(tmp_path / f"{count}.xml", "".join(page(i, "word " * 1000) for i in range(1, count + 1)))
        tracemalloc.start()
        assert sum(1 for _ in Dump(file).pages()) == count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (Page(1, "Rome", "0", False, "wikitext", "Text.", 1), None),
        (Page(1, "Talk:Rome", "1", False, "wikitext", "Text.", 1), "not_article"),
        (Page(1, "Rome", "0", True, "wikitext", "Text.", 1), "redirect"),
        (Page(1, "Rome", "0", False, "wikitext", "#redirect [[A]]", 1), "redirect"),
        (Page(1, "Rome", "0", False, "json", "{}", 1), "not_wikitext"),
        (Page(1, "Rome", "0", False, "wikitext", "x" * (MAX_PAGE_CHARACTERS + 1), 1), "oversized"),
        (Page(1, "Rome (disambiguation)", "0", False, "wikitext", "Text.", 1), "disambiguation"),
        (Page(1, "Rome", "0", False, "wikitext", "* a\n{{Disambiguation|geo}}", 1), "disambiguation"),
        (Page(1, "Rome", "0", False, "wikitext", "* a\n{{geodis}}", 1), "disambiguation"),
        (Page(1, "Rome", "0", False, "wikitext", "{{other uses|Rome (disambiguation)}} Text.", 1), None),
        (Page(1, "List of cities", "0", False, "wikitext", "Text.", 1), "list"),
        (Page(1, "Smith", "0", False, "wikitext", "{{surname}}", 1), "list"),
        (Page(1, "Listing", "0", False, "wikitext", "Text.", 1), None),
    ],
)
def test_page_filter(found: Page, reason: str | None) -> None:
    assert drop_reason(found) == reason


@pytest.mark.parametrize("step", [1, 2, 3, 5, 7, 11, 40, 300])
def test_parts_of_a_plain_dump_have_every_page_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    monkeypatch.setattr(blocks, "PLAIN_BYTES", step)
    file = write(tmp_path / "d.xml", page(1, "One.") + page(2, "Two.") + page(3, "Three."))
    parts = parts_of(file)
    assert len(parts) == -(-file.stat().st_size // step)
    found = [one.page_id for part in parts for one in Dump(file, part.start, part.end).pages()]
    assert found == [1, 2, 3]


PACKED = {  # how a program cuts a dump into streams, and how much it packs in a block
    "one stream": lambda raw: bz2.compress(raw, 1),
    "streams that end anywhere": lambda raw: b"".join(
        bz2.compress(raw[i : i + 150_001]) for i in range(0, len(raw), 150_001)
    ),
}


@pytest.mark.parametrize("how", PACKED)
def test_parts_of_a_bz2_dump_have_every_page_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    draw = random.Random(1)
    texts = [" ".join(str(draw.random()) for _ in range(draw.randrange(900))) for _ in range(100)]
    raw = (HEAD + "".join(page(i, text) for i, text in enumerate(texts)) + "</mediawiki>").encode()
    file = write(tmp_path / "d.xml.bz2", raw)
    file.write_bytes(PACKED[how](raw))
    monkeypatch.setattr(blocks, "PACKED_BYTES", 60_000)
    parts = parts_of(file)
    assert len(parts) >= 4
    assert [p.text for part in parts for p in Dump(file, part.start, part.end).pages()] == texts
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(InputError, match=r"d\.xml\.bz2: the bz2 file is cut off\.$"):
        list(Dump(file, parts[-1].start).pages())
    packed = bytearray(file.read_bytes())
    packed[parts[1].start // 8 + 2000] ^= 255
    file.write_bytes(packed)
    monkeypatch.setattr(blocks, "_LARGEST_BLOCK_BITS", 0)
    with pytest.raises(InputError, match=r"d\.xml\.bz2: cannot be read \(Invalid data stream\)\.$"):
        list(Dump(file, parts[1].start, parts[1].end).pages())


def test_an_error_in_a_later_part_tells_where_lines_are_counted_from(tmp_path: Path) -> None:
    body = HEAD + page(1, "One.") + page(2, "Two.", title="")
    file = write(tmp_path / "d.xml", body)
    start = 8 * (len(HEAD) + 10)
    message = f"line 2: a page without title (lines are counted from the first page after byte {start // 8})."
    with pytest.raises(InputError, match=re.escape(message)):
        list(Dump(file, start).pages())


def test_articles_are_counted_kept_and_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "WORK", tmp_path / "work")
    first = write(tmp_path / "a.xml", page(1, "One.") + page(2, "Two.") + page(3, "#REDIRECT [[x]]") + page(4, "Four."))
    second = write(tmp_path / "b.xml.bz2", page(1, "Again.") + page(5, "Five."))
    found = read_articles([first, second])
    assert found.page_ids.tolist() == [1, 2, 4, 1, 5]
    assert found.fresh.tolist() == [True, True, True, False, True]
    assert (found.firsts.tolist(), found.characters.tolist()) == ([0, 3, 5], [4, 4, 5, 6, 5])
    assert (found.rows_in, found.dropped) == (6, {"duplicate_page": 1, "redirect": 1})
    assert found.media == ("category", "datei", "file", "image", "media")
    texts = [read_shard(shard, PAGES).column("text").to_pylist() for shard in found.shards]
    assert texts == [["One.", "Two.", "Four."], ["Again.", "Five."]]
    kept = {shard: shard.stat().st_mtime_ns for shard in found.shards}
    assert {shard: shard.stat().st_mtime_ns for shard in read_articles([first, second]).shards} == kept
    read_articles([second])
    assert not found.shards[0].exists(), "another dump's articles are forgotten"
