"""Shards: whole or absent, of the schema that was promised, and one sentence if they are not.

Generators depend on the seed and every part of the scope, and on nothing else.
"""

import errno
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from pipeline.core.errors import InputError, StorageError
from pipeline.core.records import SEGMENTS
from pipeline.core.shards import generator, list_shards, read_folder, read_shard, shard_name, table_of, write_shard

ROWS = [{"segment_id": f"1-{i}", "title": "T", "text": f"Sentence number {i}."} for i in range(200)]


def test_rows_come_back_in_order(tmp_path: Path) -> None:
    write_shard(tmp_path / shard_name(0), table_of(ROWS[:150], SEGMENTS))
    write_shard(tmp_path / shard_name(1), table_of(ROWS[150:], SEGMENTS))
    assert [shard.name for shard in list_shards(tmp_path)] == ["part-00000.parquet", "part-00001.parquet"]
    assert read_folder(tmp_path, SEGMENTS).to_pylist() == ROWS


def test_a_full_disk_leaves_nothing_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def half_written(table: pyarrow.Table, file: Path, **options: object) -> None:
        Path(file).write_bytes(b"PAR1 half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pyarrow.parquet, "write_table", half_written)
    with pytest.raises(StorageError, match=r"part-00000\.parquet: could not be written, the disk is full\.$"):
        write_shard(tmp_path / shard_name(0), table_of(ROWS, SEGMENTS))
    assert list(tmp_path.iterdir()) == []


def test_a_shard_cut_in_half_is_named(tmp_path: Path) -> None:
    file = tmp_path / shard_name(0)
    write_shard(file, table_of(ROWS, SEGMENTS))
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(InputError, match=r"part-00000\.parquet: not a whole Parquet file"):
        read_shard(file, SEGMENTS)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"segment_id": ["1"], "title": ["T"]}, "the column is missing: 'text'"),
        ({"segment_id": [1], "title": ["T"], "text": ["x"]}, "column segment_id must be string, not int64"),
        ({"segment_id": ["1", "2"], "title": ["T", "T"], "text": ["x", None]}, "line 2: column text is null"),
        ({"segment_id": ["1"], "title": ["T"], "text": ["x"], "more": [1]}, "unknown column: 'more'"),
    ],
)
def test_a_wrong_schema_names_the_column(tmp_path: Path, columns: dict[str, list[object]], message: str) -> None:
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / shard_name(0))
    with pytest.raises(InputError, match=message):
        read_shard(tmp_path / shard_name(0), SEGMENTS)


def test_a_gap_between_shards_and_an_empty_folder_are_input_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no shard"):
        list_shards(tmp_path)
    write_shard(tmp_path / shard_name(1), table_of(ROWS, SEGMENTS))
    with pytest.raises(InputError, match=r"expected part-00000\.parquet: 'part-00001\.parquet'"):
        list_shards(tmp_path)


def test_same_scope_same_numbers_other_scope_others() -> None:
    first = generator(1, "perturb", 3).integers(1_000_000, size=4).tolist()
    assert generator(1, "perturb", 3).integers(1_000_000, size=4).tolist() == first
    others = [
        generator(2, "perturb", 3),
        generator(1, "perturb", 4),
        generator(1, "label", 3),
        generator(1, "perturb3"),
    ]
    assert all(other.integers(1_000_000, size=4).tolist() != first for other in others)
