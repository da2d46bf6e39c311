"""The base-sized metric that is shipped as changes of a packaged encoder: its size and its golden scores."""

import importlib.util

import pytest

from pipeline.core.modules import ROOT
from pipeline.core.packages import PACKAGED
from pipeline.scoring import BleurtScorer
from pipeline.scoring.cli.selftest import check

METRIC = ROOT / "models" / "bundled" / "metric-base"
PARTS = PACKAGED["all-mpnet-base-v2"].parts


def test_it_takes_at_most_20_megabytes() -> None:
    assert sum(file.stat().st_size for file in METRIC.iterdir()) <= 20e6


@pytest.mark.skipif(
    any(importlib.util.find_spec(part) is None for part in PARTS), reason="the packaged encoder is absent (make base)"
)
def test_it_gives_its_golden_scores_however_it_is_run() -> None:
    checks = check(BleurtScorer("bundled:metric-base", device="cpu"))
    assert any("selftest.json" in one.what for one in checks)
    assert [one.what for one in checks if not one.passed] == []
