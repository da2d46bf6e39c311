"""Cuts a dump into parts that are read apart from each other, and reads the XML of a part.

A plain dump is cut at any byte. A bz2 dump is cut where one of its blocks begins: bzip2 packs at most 900 kB at a time,
and each block starts with the same 48 bits, at any bit of a byte. So a dump of many streams (Wikimedia's `multistream`,
whose index is not needed) and one of a single stream are read in parallel in the same way, and a kill costs one part.

A part has the pages whose tag <page> begins in it, wherever they end.
"""

import bz2
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pipeline.core.errors import InputError

PACKED_BYTES, PLAIN_BYTES = 1 << 24, 1 << 26
"""Size of a part in the file, packed or not: some 65 MB of XML either way, which bounds the memory of a worker."""

_READ_BYTES = 1 << 18
_WINDOW_BYTES = 1 << 20
_LARGEST_BLOCK_BITS = 8 * 1_000_000  # 900 kB that do not shrink
_MAGIC = b"BZh"
_BLOCK, _END = 0x314159265359, 0x177245385090  # what begins a block, and what ends a stream
_MAGIC_BITS, _SUM_BITS = 48, 32
_PAGE = b"<page>"  # never inside a text, where XML writes &lt;


@dataclass(frozen=True)
class Part:
    """A part of the dump `file`: bits `start` to `end` of the file, or to its end if that is None."""

    file: Path
    start: int
    end: int | None


def parts_of(file: Path) -> list[Part]:
    """The parts of a dump in order; a small dump is one part."""
    cuts = [0]
    try:
        packed, size = is_packed(file), file.stat().st_size
        step = PACKED_BYTES if packed else PLAIN_BYTES
        with file.open("rb") as stream:
            for byte in range(step, size, step):
                cut = _next_block(stream, byte) if packed else 8 * byte
                if cut is not None and cut > cuts[-1]:
                    cuts.append(cut)
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror or error})", file=file) from error
    return [Part(file, start, end) for start, end in zip(cuts, [*cuts[1:], None], strict=True)]


def is_packed(file: Path) -> bool:
    """Whether `file` is bz2, by its first bytes, whatever its name."""
    with file.open("rb") as stream:
        return stream.read(len(_MAGIC)) == _MAGIC


def document(part: Part) -> Iterator[bytes]:
    """The XML of the pages of `part` in blocks, as one document: a part without the root element gets its own."""
    try:
        if part.start == 0 and part.end is None:
            yield from _unpacked(part)
        else:
            after = iter(()) if part.end is None else _unpacked(Part(part.file, part.end, None))
            yield from _pages(_unpacked(part), after, first=part.start == 0)
    except EOFError as error:
        raise InputError("the bz2 file is cut off", file=part.file) from error
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror or error})", file=part.file) from error


def _pages(own: Iterator[bytes], after: Iterator[bytes], *, first: bool) -> Iterator[bytes]:
    """The bytes of a part, `own`, from its first <page>, and those `after` it up to the first <page> there."""
    opened, waiting = first, b""  # the last bytes wait, because they may begin a tag
    for block in own:
        waiting += block
        place = 0 if opened else waiting.find(_PAGE)
        if place >= 0:
            yield b"" if opened else b"<mediawiki>"
            opened = True
            yield waiting[place : _safe(waiting, place)]
            waiting = waiting[_safe(waiting, place) :]
        else:
            waiting = waiting[_safe(waiting) :]
    foreign = len(waiting)  # where the bytes after the part begin
    for block in after:
        waiting += block
        if not opened:
            place = waiting.find(_PAGE)
            if not 0 <= place < foreign:
                break
            yield b"<mediawiki>"
            opened, waiting, foreign = True, waiting[place:], foreign - place
        place = waiting.find(_PAGE, foreign)
        if place >= 0:
            yield waiting[:place] + b"</mediawiki>"
            return
        safe = _safe(waiting)
        yield waiting[:safe]
        waiting, foreign = waiting[safe:], max(foreign - safe, 0)
    yield waiting if opened else b"<mediawiki></mediawiki>"


def _safe(block: bytes, least: int = 0) -> int:
    """How many bytes of `block`, but `least`, cannot be part of a tag <page> that goes on in the next block."""
    return max(len(block) - len(_PAGE) + 1, least)


def _unpacked(part: Part) -> Iterator[bytes]:
    """The bytes of a part, unpacked."""
    if is_packed(part.file) and (part.start or part.end is not None):
        yield from _unpacked_blocks(part)
        return
    with bz2.open(part.file) if is_packed(part.file) else part.file.open("rb") as stream:
        stream.seek(part.start // 8)
        left = None if part.end is None else (part.end - part.start) // 8
        while block := stream.read(_READ_BYTES if left is None else min(_READ_BYTES, left)):
            left = None if left is None else left - len(block)
            yield block


def _unpacked_blocks(part: Part) -> Iterator[bytes]:
    """The blocks of a part of a bz2 file, unpacked; an EOFError if the file ends inside one."""
    with part.file.open("rb") as stream:
        begin: int | None = None
        for bit, is_block in _marks(stream, part.start):
            if begin is not None:
                try:
                    yield bz2.decompress(_stream_of(stream, begin, bit))
                except (OSError, ValueError):
                    if bit - begin > _LARGEST_BLOCK_BITS:
                        raise OSError("Invalid data stream") from None
                    continue  # the 48 bits stand inside the block by chance
            if part.end is not None and bit >= part.end:
                return
            begin = bit if is_block else None
        if begin is not None:
            raise EOFError


def _stream_of(stream: BinaryIO, begin: int, end: int) -> bytes:
    """A bz2 stream of one block, bits `begin` to `end` of the file; the sum of the stream is that of its block."""
    stream.seek(begin // 8)
    value = int.from_bytes(stream.read((end + 7) // 8 - begin // 8)) >> (-end % 8)
    bits = end - begin
    value &= (1 << bits) - 1
    block_sum = value >> (bits - _MAGIC_BITS - _SUM_BITS) & ((1 << _SUM_BITS) - 1)
    value = ((value << _MAGIC_BITS | _END) << _SUM_BITS) | block_sum
    bits += _MAGIC_BITS + _SUM_BITS
    return _MAGIC + b"9" + (value << (-bits % 8)).to_bytes((bits + 7) // 8)


def _next_block(stream: BinaryIO, byte: int) -> int | None:
    """The first bit of the first block that begins at `byte` or after it; None if none does."""
    return next((bit for bit, is_block in _marks(stream, 8 * byte) if is_block), None)


def _marks(stream: BinaryIO, start: int) -> Iterator[tuple[int, bool]]:
    """From the bit `start` on, the bits where blocks begin (True) and where streams end (False), in order."""
    offset, over = start // 8, 6  # a mark that begins in the last byte of a window goes on for six more
    while True:
        stream.seek(offset)
        data = stream.read(_WINDOW_BYTES + over)
        found = sorted((8 * offset + bit, is_block) for is_block in (True, False) for bit in _places(data, is_block))
        yield from (mark for mark in found if mark[0] >= start)
        if len(data) < _WINDOW_BYTES + over:
            return
        offset += _WINDOW_BYTES
        start = max(start, 8 * offset)


def _places(data: bytes, is_block: bool) -> Iterator[int]:
    """Bits of `data` where the mark stands: its five inner bytes are searched for, at each of the eight bits."""
    magic = _BLOCK if is_block else _END
    for shift in range(8):
        inner = (magic << (8 - shift)).to_bytes(7)[1:6]
        place = data.find(inner, 1)
        while place >= 0:
            around = int.from_bytes(data[place - 1 : place + 6].ljust(7, b"\0"))
            if around >> (8 - shift) & ((1 << _MAGIC_BITS) - 1) == magic:
                yield 8 * (place - 1) + shift
            place = data.find(inner, place + 1)
