"""What tests of the statistics share."""

from pathlib import Path

import golden_ratings
import pytest


@pytest.fixture(scope="session")
def golden(real_data: Path) -> golden_ratings.Golden:
    """Skips without the folder of other programs' outputs, which lies beside the real data."""
    file = real_data.resolve().parent / "oracle" / "mt-metrics-eval" / "golden.json"
    if not file.is_file():
        pytest.skip(f"mt-metrics-eval's numbers are not here: {file}")
    return golden_ratings.read(file)
