"""Finds MediaWiki XML dumps, plain or bz2, and streams their pages in memory that does not grow with the dump.

params.yaml names a source of dumps as
  path/to/dump.xml.bz2    one dump
  path/to/folder          every *.xml, *.xml.bz2 and *.xml-p1p100.bz2 in it, in the order of their names
  https://…               one dump, downloaded once; a download that breaks off is continued by the next run
  gensim:NAME             the file NAME of gensim's test data, which its wheel carries

A dump that is cut off is an InputError with the line, and so is a file that is not UTF-8, not XML or not a dump. A dump
never declares XML entities, so a declaration is refused before anything is expanded.
"""

import codecs
import re
import xml.parsers.expat
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline.core.errors import InputError, ParamsError
from pipeline.extract.blocks import Part, document
from pipeline.files.download import is_url
from pipeline.files.fetch import fetched

_DUMP_NAME = re.compile(r".+\.xml(-[\w.-]+?)?(\.bz2)?")
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_PAGE_FIELDS = ("title", "ns", "id", "revision/text", "revision/model")
_MEDIA_KEYS = ("-2", "6", "14")
_MAX_DEPTH = 20
_TEXT_BYTES = 1 << 16  # of a text that the parser hands over at once
MAX_PAGE_CHARACTERS = 2_100_000
"""Longest wikitext of a page, which MediaWiki limits to 2 MiB. From a longer one, little more than this is read."""


def dump_files(source: str, sha256: str | None) -> list[Path]:
    """The dump files that `source` names, in order.

    `sha256` is that of a single dump. A URL must have one, and a folder must have none; else it is a ParamsError.
    A missing file, a folder without dumps, a wrong sum and a failed download are InputErrors.
    """
    if is_url(source):
        check_sum_of_url(sha256)
        return [fetched(source, sha256)]
    path = _in_gensim(source.removeprefix("gensim:")) if source.startswith("gensim:") else Path(source)
    if not path.is_dir():
        return [fetched(str(path), sha256)]
    if sha256 is not None:
        raise ParamsError("extract.sha256: must be null if the source is a folder.")
    files = sorted(file for file in path.iterdir() if file.is_file() and _DUMP_NAME.fullmatch(file.name))
    if not files:
        raise InputError("no *.xml or *.xml.bz2 in this folder", file=path)
    return files


def check_sum_of_url(sha256: str | None) -> None:
    """A ParamsError if `sha256` is none, which a source that is a URL needs."""
    if sha256 is None or not _SHA256.fullmatch(sha256):
        raise ParamsError(f"extract.sha256: a URL needs its SHA-256 in 64 hexadecimal digits, not {sha256!r}.")


def _in_gensim(name: str) -> Path:
    try:
        from gensim.test.utils import datapath
    except ImportError as error:
        raise InputError("the package gensim, which carries this file, is not installed", file=name) from error
    return Path(datapath(name))


@dataclass(frozen=True)
class Page:
    """One page: `text` is the wikitext of its last revision, and `line` its first line in the XML that was read."""

    page_id: int
    title: str
    namespace: str
    redirect: bool
    model: str
    text: str
    line: int


class Dump:
    """The pages of one dump file, or of a part of it (`pipeline.extract.blocks`): bits `start` to `end` of the file.

    While they are read, `media` collects the names of the namespaces of files and categories, in lower case; the part
    that begins the file has them.
    """

    def __init__(self, file: Path, start: int = 0, end: int | None = None) -> None:
        self._part = Part(file, start, end)
        self.media: set[str] = set()
        self._pages: deque[Page] = deque()
        self._path: list[str] = []
        self._field: list[str] | None = None
        self._field_length = 0
        self._values: dict[str, str] = {}
        self._namespace_key = ""
        self._line = 0
        self._parser = xml.parsers.expat.ParserCreate("UTF-8")
        self._parser.buffer_text = True
        self._parser.buffer_size = _TEXT_BYTES
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.EntityDeclHandler = self._entity

    def pages(self) -> Iterator[Page]:
        """Every page, in the order of the dump."""
        for block in self._decoded():
            self._feed(block, last=False)
            while self._pages:
                yield self._pages.popleft()
        self._feed(b"", last=True)

    def _feed(self, block: bytes, *, last: bool) -> None:
        try:
            self._parser.Parse(block, last)
        except xml.parsers.expat.ExpatError as error:
            reason = xml.parsers.expat.ErrorString(error.code)
            problem = "the dump is cut off" if last and self._path else f"not a MediaWiki dump, as XML {reason}"
            raise self._error_at(problem, error.lineno) from error

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if not self._path and tag != "mediawiki":
            raise self._error("not a MediaWiki dump, whose root element is mediawiki", tag)
        if len(self._path) == _MAX_DEPTH:
            raise self._error("elements are nested deeper than in any MediaWiki dump", tag)
        self._path.append(tag)
        if tag == "page" and len(self._path) == 2:
            self._values = {}
            self._line = self._parser.CurrentLineNumber
        elif self._path[-2:] == ["page", "redirect"]:
            self._values["redirect"] = "yes"
        elif tag == "namespace":
            self._namespace_key = attributes.get("key", "")
            self._open()
        elif self._page_field() is not None:
            self._open()

    def _open(self) -> None:
        self._field = []
        self._field_length = 0

    def _page_field(self) -> str | None:
        name = "/".join(self._path[2:])
        return name if self._path[1:2] == ["page"] and name in _PAGE_FIELDS else None

    def _characters(self, text: str) -> None:
        if self._field is not None and self._field_length <= MAX_PAGE_CHARACTERS:
            self._field.append(text)
            self._field_length += len(text)

    def _end(self, tag: str) -> None:
        value = "".join(self._field or ())
        field = self._page_field()
        if field is not None:
            self._values[field] = value
        elif tag == "namespace" and self._namespace_key in _MEDIA_KEYS:
            self.media.add(value.lower())
        elif tag == "page" and len(self._path) == 2:
            self._pages.append(self._page())
        self._field = None
        self._path.pop()

    def _page(self) -> Page:
        values = self._values
        for name in ("title", "id"):
            if not values.get(name, "").strip():
                raise self._error_at(f"a page without {name}", self._line)
        if not values["id"].strip().isdecimal() or len(values["id"].strip()) > 10:
            raise self._error_at("a page id must be a number", self._line, values["id"])
        return Page(
            page_id=int(values["id"]),
            title=values["title"],
            namespace=values.get("ns", "0").strip(),
            redirect="redirect" in values,
            model=values.get("revision/model", "wikitext"),
            text=values.get("revision/text", ""),
            line=self._line,
        )

    def _entity(self, name: str, *_: object) -> None:
        raise self._error("declares an XML entity, which no MediaWiki dump does", name)

    def _error(self, problem: str, value: str) -> InputError:
        return self._error_at(problem, self._parser.CurrentLineNumber, value)

    def _error_at(self, problem: str, line: int, value: object = None) -> InputError:
        start = self._part.start
        told = f"{problem} (lines are counted from the first page after byte {start // 8})" if start else problem
        return InputError(told, file=self._part.file, line=line, value=value)

    def _decoded(self) -> Iterator[bytes]:
        """The XML in blocks, unpacked and checked to be UTF-8."""
        utf8 = codecs.getincrementaldecoder("utf-8")()
        line = 1
        for block in document(self._part):
            pending = utf8.getstate()[0]
            try:
                utf8.decode(block)
            except UnicodeDecodeError as error:
                line += (pending + block)[: error.start].count(b"\n")
                bad = error.object[error.start : error.end]
                raise self._error_at("not valid UTF-8", line, bad) from error
            line += block.count(b"\n")
            yield block
