"""The stand is built once for all tests of torture."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from torture.stand import Stand, standing


@pytest.fixture(scope="session")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    with standing(tmp_path_factory.mktemp("stand")) as found:
        yield found


@pytest.fixture
def copy(stand: Stand, tmp_path: Path) -> Callable[[], Path]:
    """Makes a copy of the project to spoil."""

    def copy_() -> Path:
        return stand.copy(tmp_path / "project")

    return copy_
