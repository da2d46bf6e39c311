"""The metric that is shipped: its size, its golden scores, and that it does not embarrass on the obvious."""

import pytest

from pipeline.core.modules import ROOT
from pipeline.scoring import BleurtScorer
from pipeline.scoring.cli.challenge import ITEMS, Tally, checkpoint_score, pairwise_accuracy, read_items
from pipeline.scoring.cli.selftest import check

METRIC = ROOT / "models" / "bundled" / "metric"


@pytest.fixture(scope="module")
def scorer() -> BleurtScorer:
    return BleurtScorer(device="cpu")


@pytest.fixture(scope="module")
def tallies() -> dict[str, Tally]:
    return pairwise_accuracy(checkpoint_score(str(METRIC)), read_items(ITEMS))


def test_it_takes_at_most_50_megabytes() -> None:
    assert sum(file.stat().st_size for file in METRIC.iterdir()) <= 50e6


def test_its_anchors_stand_in_order(scorer: BleurtScorer) -> None:
    assert scorer.calibration is not None
    anchors = scorer.calibration.anchors
    assert anchors.identical > anchors.unrelated > anchors.empty


def test_it_gives_its_golden_scores_however_it_is_run(scorer: BleurtScorer) -> None:
    checks = check(scorer)
    assert any("selftest.json" in one.what for one in checks)
    assert [one.what for one in checks if not one.passed] == []


@pytest.mark.parametrize(
    "category", ["identical>paraphrase", "wrong entity>half missing", "half missing>unrelated", "unrelated>empty"]
)
def test_it_gets_the_obvious_right(category: str, tallies: dict[str, Tally]) -> None:
    assert tallies[category].total >= 20
    assert tallies[category].right >= 0.9 * tallies[category].total
