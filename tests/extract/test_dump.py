"""Dumps: where they are found, their pages and namespaces, and one clear sentence for each kind of bad dump."""

import bz2
import hashlib
import re
import tracemalloc
from pathlib import Path

import pytest

from pipeline.core.errors import InputError, ParamsError
from pipeline.extract.dump import MAX_PAGE_CHARACTERS, Dump, Page, dump_files
from pipeline.extract.pages import PageIds, drop_reason, write_chunks

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


def test_page_ids() -> None:
    ids = PageIds()
    assert [ids.add(i) for i in (1, 2, 1, 65_536, 1 << 33, 65_536)] == [True, True, False, True, True, False]


def test_chunks_count_every_page_and_resume(tmp_path: Path) -> None:
    first = write(tmp_path / "a.xml", page(1, "One.") + page(2, "Two.") + page(3, "#REDIRECT [[x]]") + page(4, "Four."))
    second = write(tmp_path / "b.xml.bz2", page(1, "Again.") + page(5, "Five."))
    chunks = write_chunks([first, second], 2, tmp_path / "work")
    assert [file.name for file in chunks.files] == [
        "dump-0000-00000.parquet",
        "dump-0000-00001.parquet",
        "dump-0001-00000.parquet",
    ]
    assert (chunks.rows_in, chunks.rows_out, chunks.dropped) == (6, 4, {"duplicate_page": 1, "redirect": 1})
    assert chunks.media == ("category", "datei", "file", "image", "media")
    first.unlink()  # a dump that was read is not read again
    (tmp_path / "work" / "dump-0001.json").unlink()
    assert write_chunks([first, second], 2, tmp_path / "work") == chunks
