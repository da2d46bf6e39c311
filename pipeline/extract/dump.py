"""Streams pages out of a MediaWiki XML dump, plain or bz2, in memory that does not grow with the dump.

A dump that is cut off, not XML, not a dump, or not UTF-8 is an input error with the line. XML entities are never
declared in a dump, so a declaration is refused before anything is expanded.
"""

import bz2
import codecs
import xml.parsers.expat
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline.core.errors import InputError

_BLOCK_BYTES = 1 << 18
_BZ2_MAGIC = b"BZh"
_PAGE_FIELDS = ("title", "ns", "id", "revision/text", "revision/model")
_MEDIA_KEYS = ("-2", "6", "14")
_MAX_DEPTH = 20
MAX_PAGE_CHARACTERS = 2_100_000
"""Longest wikitext of a page, which MediaWiki limits to 2 MiB; of a longer one little more than this is kept."""


@dataclass(frozen=True)
class Page:
    """One page of a dump; `line` is where it starts, from 1. `text` is wikitext of the last revision given."""

    page_id: int
    title: str
    namespace: str
    redirect: bool
    model: str
    text: str
    line: int


class Dump:
    """The pages of one dump file; `media` fills with the names of the namespaces of files and categories."""

    def __init__(self, file: Path) -> None:
        self.file = file
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
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.EntityDeclHandler = self._entity

    def pages(self) -> Iterator[Page]:
        """Every page, in the order of the dump."""
        for block in _decoded(self.file):
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
            raise InputError(problem, file=self.file, line=error.lineno) from error

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
                raise InputError(f"a page without {name}", file=self.file, line=self._line)
        if not values["id"].strip().isdecimal() or len(values["id"].strip()) > 10:
            raise InputError("a page id must be a number", file=self.file, line=self._line, value=values["id"])
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
        return InputError(problem, file=self.file, line=self._parser.CurrentLineNumber, value=value)


def _decoded(file: Path) -> Iterator[bytes]:
    """Blocks of the dump's XML, decompressed and checked to be UTF-8."""
    utf8 = codecs.getincrementaldecoder("utf-8")()
    line = 1
    for block in _raw(file):
        pending = utf8.getstate()[0]
        try:
            utf8.decode(block)
        except UnicodeDecodeError as error:
            line += (pending + block)[: error.start].count(b"\n")
            bad = error.object[error.start : error.end]
            raise InputError("not valid UTF-8", file=file, line=line, value=bad) from error
        line += block.count(b"\n")
        yield block


def _raw(file: Path) -> Iterator[bytes]:
    try:
        with file.open("rb") as plain:
            packed = plain.read(len(_BZ2_MAGIC)) == _BZ2_MAGIC
        with bz2.open(file) if packed else file.open("rb") as stream:
            while block := stream.read(_BLOCK_BYTES):
                yield block
    except EOFError as error:
        raise InputError("the bz2 file is cut off", file=file) from error
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror or error})", file=file) from error
