"""Makes a multi-stream dump of any size out of a real one, to rehearse the extraction of a full dump.

python tests/extract/large_dump.py EXCERPT OUT MEGABYTES

Articles are cut at their headings into pages of some kilobytes, the size of Wikipedia's. The dump repeats them, and in
every copy the ends of sentences tell its number, so that sentences differ. As in Wikimedia's files, a stream has 100
pages, the first stream the names of the namespaces, and the last one the closing tag.
"""

import bz2
import itertools
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

from pipeline.extract.dump import Dump

HEAD = '<mediawiki version="0.11">\n<siteinfo><namespaces><namespace key="6">File</namespace></namespaces></siteinfo>\n'
PAGES_PER_STREAM = 100
_HEADING = re.compile(r"\n(?===[^=])")
_END = re.compile(r"([a-z])\. (?=[A-Z])")


def pages(excerpt: Path) -> Iterator[str]:
    """XML of one page after the other, without end."""
    texts = [(page.title, part) for page in Dump(excerpt).pages() for part in _HEADING.split(page.text)]
    for number in itertools.count(1):
        copy, place = divmod(number, len(texts))
        title, text = texts[place]
        varied = escape(_END.sub(rf"\1 in copy {copy}. ", text))
        yield (
            f"  <page>\n    <title>{escape(title)} {number}</title>\n    <ns>0</ns>\n    <id>{number}</id>\n"
            f"    <revision>\n      <text>{varied}</text>\n    </revision>\n  </page>\n"
        )


def write_large_dump(excerpt: Path, out: Path, megabytes: float) -> int:
    """Write a dump of at least `megabytes` of XML to `out`, and return the number of its pages."""
    size = count = 0
    endless = pages(excerpt)
    with out.open("wb") as stream:
        stream.write(bz2.compress(HEAD.encode()))
        while size < megabytes * 1e6:
            block = "".join(itertools.islice(endless, PAGES_PER_STREAM)).encode()
            stream.write(bz2.compress(block))
            size, count = size + len(block), count + PAGES_PER_STREAM
        stream.write(bz2.compress(b"</mediawiki>\n"))
    return count


if __name__ == "__main__":
    print(write_large_dump(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])), "pages")
