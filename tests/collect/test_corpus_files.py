"""Files found by name in folders and in archives inside archives."""

import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.collect.corpus import FileIndex, Part, open_parts
from pipeline.core.errors import InputError

Write = Callable[[Path, str], Path]


def test_a_folder_txt_comes_first_and_then_the_shallowest(tmp_path: Path, write: Write) -> None:
    deep, shallow, best = (write(tmp_path / place / "a.csv", "") for place in ("x/y", "z", "q/txt/w/v"))
    write(tmp_path / ".hidden", "")
    index = FileIndex([tmp_path])
    assert index.all("a.csv") == [best, shallow, deep]
    assert (index.find("a.csv"), index.find("b.csv"), index.find(".hidden")) == (best, None, None)


def test_names_match_as_a_whole_in_their_order(tmp_path: Path, write: Write) -> None:
    for name in ("s-fi-en.csv", "s-de-en.csv", "s-de-en.csv.old"):
        write(tmp_path / name, "")
    matches = FileIndex([tmp_path]).matching(r"s-([a-z]+-en)\.csv")
    assert [match[1] for match in matches] == ["de-en", "fi-en"]


def test_archives_are_opened_inside_archives_if_their_names_match(tmp_path: Path, write: Write) -> None:
    texts = write(tmp_path / "texts.txt", "inner")
    with zipfile.ZipFile(tmp_path / "texts.zip", "w") as packed:
        packed.write(texts, "texts.txt")
    for name in ("package", "other"):
        with tarfile.open(tmp_path / f"{name}.tgz", "w:gz") as tar:
            tar.add(tmp_path / "texts.zip", arcname=f"{name}/texts.zip")
    (tmp_path / "downloads").mkdir()
    for name in ("package.tgz", "other.tgz"):
        (tmp_path / name).rename(tmp_path / "downloads" / name)
    index = open_parts([Part(path=str(tmp_path / "downloads"))], "package|texts")
    found = index.find("texts.txt")
    assert found is not None
    assert found.read_text(encoding="utf-8") == "inner"
    assert len(index.all("texts.zip")) == 1
    assert open_parts([Part(path=str(tmp_path / "downloads"))], "texts").find("texts.txt") is None


def test_a_part_that_is_a_file_is_refused(tmp_path: Path, write: Write) -> None:
    file = write(tmp_path / "a.csv", "")
    with pytest.raises(InputError, match=r"a\.csv: neither a folder nor an archive"):
        open_parts([Part(path=str(tmp_path)), Part(path=str(file))], "x")
