"""Fixtures that several test files share."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data (layout in README.md, "Real data"); tests that need it skip where it is absent."""
    folder = Path(os.environ.get("BLEURT_TEST_DATA", ROOT / "data" / "real"))
    if not folder.is_dir():
        pytest.skip(f"real data is not here: set BLEURT_TEST_DATA or link {folder}")
    return folder
