"""Folders that cannot be written: caches are done without, and of the project's own a sentence says which it is."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from torture.stand import Stand, content, some

NAMES = ("perturb", "evaluate", "pretrain@all", "extract", "adapt@own", "label@entailment", "collect", "grade")
NAMES += ("finetune@all", "report")


@pytest.fixture
def closed() -> Iterator[Callable[[Path], None]]:
    """Takes the right to write from folders, and gives it back at the end."""
    folders: list[Path] = []

    def close(folder: Path) -> None:
        folder.chmod(0o555)
        folders.append(folder)

    yield close
    for folder in folders:
        folder.chmod(0o755)


@pytest.mark.parametrize("name", some(*NAMES, quickly=1))
def test_caches_are_done_without(
    stand: Stand, copy: Callable[[], Path], closed: Callable[[Path], None], name: str
) -> None:
    folder, stage = copy(), stand.stages[name]
    for cache in stand.forge.caches:
        closed(cache)
    done = stand.forge.run(folder, stage, bound=True)
    assert done.code == 0, done.said[-3000:]
    assert content(folder / stage.out) == stand.whole(stage)


@pytest.mark.parametrize("name", some("collect", "perturb", "extract", "pretrain@all", "report", quickly=1))
@pytest.mark.parametrize("place", [".work", "out"])
def test_a_folder_of_the_project_is_named(
    stand: Stand, copy: Callable[[], Path], closed: Callable[[Path], None], name: str, place: str
) -> None:
    folder, stage = copy(), stand.stages[name]
    (folder / ".work").mkdir()
    parent = folder / (".work" if place == ".work" else stage.out.parent if stage.kind != "report" else stage.out)
    closed(parent)
    before = content(folder / stage.out)
    done = stand.forge.run(folder, stage, bound=True)
    (sentence,) = done.sentences
    assert done.code == 2 and "could not be written, Permission denied" in sentence, done.said[-3000:]
    assert str(parent.relative_to(folder)) in sentence
    assert content(folder / stage.out) == before
