"""TensorFlow's tensor bundles as plain arrays, without TensorFlow: `PREFIX.index` and `PREFIX.data-00000-of-0000N`.

The index is a LevelDB table: sorted blocks of key and value, a block of handles to them, and a footer of 48 bytes. The
key "" holds a BundleHeaderProto; every other key is a variable's name, and its value a BundleEntryProto: type, shape,
shard, place, size and CRC-32C of its bytes. Blocks and variables carry masked CRC-32C sums, which are checked. Sources:
LevelDB's doc/table_format.md, TensorFlow's tensor_bundle.proto.

A block may be compressed with Snappy, as TensorFlow before 1.2 wrote them; that needs the package cramjam.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import google_crc32c
import numpy
from numpy.typing import NDArray

from pipeline.core.errors import ModelError

MAGIC = 0xDB4775248B80FB57
FOOTER_BYTES = 48
TRAILER_BYTES = 5
"""After a block: one byte for its compression, and the masked sum of block and byte."""

PLAIN, SNAPPY = 0, 1
FLOAT, BFLOAT16 = 1, 14
DTYPES = {FLOAT: "<f4", 2: "<f8", 3: "<i4", 9: "<i8", BFLOAT16: "<u2", 19: "<f2"}
"""TensorFlow's numbers of the types that are read (types.proto); bfloat16 becomes float32."""

CHUNK_BYTES = 1 << 26
Fields = dict[int, list[Any]]


@dataclass(frozen=True)
class Variable:
    """What the index says about a variable; `kind` is a key of DTYPES, or another type, which cannot be read."""

    kind: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    crc: int
    sliced: bool


class TensorBundle:
    """The bundle of `prefix`, such as FOLDER/variables/variables; a damaged or missing index is a ModelError."""

    def __init__(self, prefix: Path) -> None:
        self._prefix = prefix
        self._index = Path(f"{prefix}.index")
        self.variables: dict[str, Variable] = {}
        self._mapped: dict[Path, NDArray[numpy.uint8]] = {}
        try:
            content = self._index.read_bytes()
        except OSError as error:
            raise ModelError(f"{self._index}: cannot be read ({error.strerror}).") from error
        try:
            for key, value in _entries(content):
                self._take(key.decode("utf-8"), _fields(value))
        except _DamageError as error:
            raise ModelError(f"{self._index}: is no whole index of a TensorFlow checkpoint ({error}).") from error
        except (IndexError, struct.error, ValueError, TypeError, KeyError) as error:
            raise ModelError(
                f"{self._index}: is no whole index of a TensorFlow checkpoint (cut or damaged)."
            ) from error

    def _take(self, name: str, fields: Fields) -> None:
        if not name:
            self._shards = int(_one(fields, 1, 1))
            if _one(fields, 2, 0) != 0:
                raise _DamageError("written on a big-endian machine")
            return
        shape = [_signed(_one(_fields(size), 1, 0)) for size in _fields(_one(fields, 2, b"")).get(2, [])]
        self.variables[name] = Variable(
            kind=_one(fields, 1, 0),
            shape=tuple(shape),
            shard=_one(fields, 3, 0),
            offset=_one(fields, 4, 0),
            size=_one(fields, 5, 0),
            crc=_one(fields, 6, 0),
            sliced=7 in fields,
        )

    def read(self, name: str) -> NDArray[Any]:
        """The variable `name`, with its shape; a KeyError if there is none, a ModelError if it is cut or damaged."""
        variable = self.variables[name]
        if variable.sliced or variable.kind not in DTYPES:
            what = "lies in slices" if variable.sliced else f"has the type {variable.kind} of TensorFlow"
            raise ModelError(f"{self._index}: the variable {name} {what}, which is not read.")
        file = Path(f"{self._prefix}.data-{variable.shard:05}-of-{self._shards:05}")
        if file not in self._mapped:
            self._mapped[file] = _map(file)
        content = self._mapped[file][variable.offset : variable.offset + variable.size]
        dtype = numpy.dtype(DTYPES[variable.kind])
        if len(content) < variable.size:
            raise ModelError(f"{file}: is cut: it ends before the variable {name} does.")
        if variable.size != dtype.itemsize * int(numpy.prod(variable.shape, dtype=numpy.int64)):
            raise ModelError(f"{self._index}: the variable {name} has another size than its shape says.")
        if masked_crc(content) != variable.crc:
            raise ModelError(f"{file}: is damaged: the checksum of the variable {name} is wrong.")
        array = content.view(dtype).reshape(variable.shape)
        if variable.kind == BFLOAT16:
            return (array.astype(numpy.uint32) << 16).view(numpy.float32)
        return array


class _DamageError(Exception):
    """What is wrong with an index, in a few words."""


def _map(file: Path) -> NDArray[numpy.uint8]:
    try:
        return numpy.memmap(file, dtype=numpy.uint8, mode="r")
    except (OSError, ValueError) as error:  # an empty file is a ValueError
        reason = error.strerror if isinstance(error, OSError) else "it is empty"
        raise ModelError(f"{file}: cannot be read ({reason}).") from error


def masked_crc(content: NDArray[numpy.uint8]) -> int:
    """The CRC-32C of `content`, rotated by 15 bits plus a constant, as LevelDB and TensorFlow store it."""
    sum_ = 0
    for first in range(0, len(content), CHUNK_BYTES):
        sum_ = google_crc32c.extend(sum_, content[first : first + CHUNK_BYTES].tobytes())
    return (((sum_ >> 15) | (sum_ << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _entries(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """All keys and values of a table, in order."""
    if len(content) < FOOTER_BYTES or struct.unpack("<Q", content[-8:])[0] != MAGIC:
        raise _DamageError("it does not end as one")
    footer = content[-FOOTER_BYTES:]
    _, place = _handle(footer, 0)
    (offset, size), _ = _handle(footer, place)
    for _, handle in _pairs(_block(content, offset, size)):
        (offset, size), _ = _handle(handle, 0)
        yield from _pairs(_block(content, offset, size))


def _block(content: bytes, offset: int, size: int) -> bytes:
    end = offset + size
    if end + TRAILER_BYTES > len(content):
        raise _DamageError("it is cut")
    (crc,) = struct.unpack("<I", content[end + 1 : end + TRAILER_BYTES])
    if masked_crc(numpy.frombuffer(content, numpy.uint8)[offset : end + 1]) != crc:
        raise _DamageError("a checksum is wrong")
    block = content[offset:end]
    if content[end] == PLAIN:
        return block
    if content[end] != SNAPPY:
        raise _DamageError(f"compression {content[end]} is not known")
    try:
        from cramjam import snappy
    except ImportError:
        raise _DamageError("it is compressed; pip install cramjam to read it") from None
    return bytes(snappy.decompress_raw(block))


def _pairs(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of a block; a key holds only what differs from the one before it."""
    (restarts,) = struct.unpack("<I", block[-4:])
    place, key = 0, b""
    while place < len(block) - 4 * (restarts + 1):
        shared, place = _varint(block, place)
        own, place = _varint(block, place)
        size, place = _varint(block, place)
        key = key[:shared] + block[place : place + own]
        place += own
        yield key, block[place : place + size]
        place += size


def _handle(content: bytes, place: int) -> tuple[tuple[int, int], int]:
    """((offset, size) of a block, the place after them)."""
    offset, place = _varint(content, place)
    size, place = _varint(content, place)
    return (offset, size), place


def _varint(content: bytes, place: int) -> tuple[int, int]:
    """(a number in groups of 7 bits, lowest first; the place after it)."""
    value = shift = 0
    while True:
        byte = content[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7


def _fields(message: bytes) -> Fields:
    """A protocol buffer: number of a field -> its values, numbers or bytes."""
    found: Fields = {}
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        value: Any
        if tag & 7 == 0:
            value, place = _varint(message, place)
        elif tag & 7 == 2:
            size, place = _varint(message, place)
            value, place = message[place : place + size], place + size
        elif tag & 7 in (1, 5):
            size = 8 if tag & 7 == 1 else 4
            value, place = int.from_bytes(message[place : place + size], "little"), place + size
        else:
            raise _DamageError("an entry is malformed")
        found.setdefault(tag >> 3, []).append(value)
    return found


def _one(fields: Fields, number: int, default: Any) -> Any:
    return fields.get(number, [default])[-1]


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
