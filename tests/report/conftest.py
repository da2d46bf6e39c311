"""What tests of the report share."""

from pathlib import Path

import pytest
from tiny_outputs import write_all


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """A folder with outputs of every stage."""
    write_all(tmp_path)
    return tmp_path
