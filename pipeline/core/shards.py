"""Parquet shards: `part-00000.parquet …`, a fixed schema, zstd, written to a temporary name and renamed (law 4).

Beside them the random generators derived from (seed, stage, shard): the same on every worker, in every order (law 5).
"""

import contextlib
import errno
import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy
import pyarrow
import pyarrow.parquet

from pipeline.core.errors import InputError, StorageError


def shard_name(index: int) -> str:
    """File name of shard `index`: `part-00007.parquet` for 7."""
    return f"part-{index:05d}.parquet"


def list_shards(folder: Path) -> list[Path]:
    """The shards of `folder` in order; an absent or empty folder is an input error, and so is a gap."""
    shards = sorted(folder.glob("part-*.parquet"))
    if not shards:
        raise InputError("no shard part-*.parquet in this folder", file=folder)
    for index, shard in enumerate(shards):
        if shard.name != shard_name(index):
            raise InputError(f"expected {shard_name(index)}", file=folder, value=shard.name)
    return shards


def table_of(rows: Sequence[dict[str, Any]], schema: pyarrow.Schema) -> pyarrow.Table:
    """Rows as a table of exactly `schema`; a null in a non-nullable column is our own defect and asserts."""
    table = pyarrow.Table.from_pylist(list(rows), schema=schema)
    for field in schema:
        assert field.nullable or table.column(field.name).null_count == 0, f"null in {field.name}"
    return table


@contextlib.contextmanager
def writing(file: Path) -> Iterator[None]:
    """Inside, an OSError means that `file` could not be written: a StorageError with the reason."""
    try:
        yield
    except OSError as error:
        full = error.errno == errno.ENOSPC or "No space left" in str(error)
        reason = "the disk is full" if full else (error.strerror or str(error))
        raise StorageError(f"{file}: could not be written, {reason}.") from error


@contextlib.contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """A temporary name beside `file` to write to, which becomes `file` at the end; on any error it is removed."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            temporary.replace(file)
        finally:
            temporary.unlink(missing_ok=True)


def write_shard(file: Path, table: pyarrow.Table) -> None:
    """Write `table` so that `file` either holds all of it or does not exist; a full disk is a StorageError."""
    with replacing(file) as temporary:
        pyarrow.parquet.write_table(table, temporary, compression="zstd")


def read_shard(file: Path, schema: pyarrow.Schema) -> pyarrow.Table:
    """Read `file` and hold it against `schema`; damage and any difference are input errors."""
    try:
        table = pyarrow.parquet.ParquetFile(file).read()
    except FileNotFoundError as error:
        raise InputError("no such file", file=file) from error
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"not a whole Parquet file ({' '.join(str(error).split())[:120]})", file=file) from error
    for field in schema:
        if field.name not in table.column_names:
            raise InputError("the column is missing", file=file, value=field.name)
        if table.schema.field(field.name).type != field.type:
            found = table.schema.field(field.name).type
            raise InputError(f"column {field.name} must be {field.type}, not {found}", file=file)
        if not field.nullable and table.column(field.name).null_count:
            row = table.column(field.name).is_null().index(True).as_py()
            raise InputError(f"column {field.name} is null", file=file, line=row + 1)
    extra = [name for name in table.column_names if name not in schema.names]
    if extra:
        raise InputError("unknown column", file=file, value=extra[0])
    return table.select(schema.names).cast(schema)


def read_rows(folder: Path, schema: pyarrow.Schema) -> Iterator[dict[str, Any]]:
    """All rows of all shards of `folder`, one shard in memory at a time."""
    for shard in list_shards(folder):
        yield from read_shard(shard, schema).to_pylist()


def read_folder(folder: Path, schema: pyarrow.Schema) -> pyarrow.Table:
    """All shards of `folder` as one table."""
    return pyarrow.concat_tables([read_shard(shard, schema) for shard in list_shards(folder)])


def generator(seed: int, *scope: str | int) -> numpy.random.Generator:
    """A generator that depends on `seed` and on every part of `scope`, such as `("perturb", shard)`."""
    text = "\x1f".join([str(seed), *map(str, scope)])
    return numpy.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big"))
