"""Base-sized models, shipped as changes of a packaged encoder: size, golden scores, contradictions; and facts."""

import importlib.util

import pytest

from pipeline.core.modules import ROOT
from pipeline.core.packages import PACKAGED
from pipeline.scoring import BleurtScorer
from pipeline.scoring.cli.selftest import check

BUNDLED = ROOT / "models" / "bundled"
PARTS = PACKAGED["all-mpnet-base-v2"].parts
needs_the_encoder = pytest.mark.skipif(
    any(importlib.util.find_spec(part) is None for part in PARTS), reason="the packaged encoder is absent (make base)"
)


@pytest.mark.parametrize("name", ["metric-base", "entailment-base"])
def test_it_takes_at_most_20_megabytes(name: str) -> None:
    assert sum(file.stat().st_size for file in (BUNDLED / name).iterdir()) <= 20e6


@needs_the_encoder
def test_the_classifier_finds_a_contradiction_and_leaves_a_paraphrase_alone() -> None:
    reference = "The committee rejected the budget on Monday after a long debate."
    copy = "The committee approved the budget on Monday after a long debate."
    paraphrase = "On Monday, following lengthy discussions, the panel turned the budget down."
    scorer = BleurtScorer("bundled:metric", device="cpu", entailment="bundled:entailment-base")
    wrong, right = scorer.score([reference] * 2, [copy, paraphrase])
    plain = BleurtScorer("bundled:metric", device="cpu").score([reference] * 2, [copy, paraphrase])
    assert wrong < plain[0] - 0.5
    assert right == pytest.approx(plain[1], abs=1e-5)


@pytest.mark.parametrize("name", ["bundled:metric", pytest.param("bundled:metric-base", marks=needs_the_encoder)])
@pytest.mark.parametrize(
    ("said", "meant", "opposite"), [("rejected", "turned down", "approved"), ("approved", "passed", "rejected")]
)
def test_it_puts_other_words_above_a_copy_that_says_the_opposite(
    name: str, said: str, meant: str, opposite: str
) -> None:
    sentence = "The committee {} the budget on Monday after a long debate."
    paraphrase = f"On Monday, following lengthy discussions, the panel {meant} the budget."
    right, wrong = BleurtScorer(name, device="cpu").score(
        [sentence.format(said)] * 2, [paraphrase, sentence.format(opposite)]
    )
    assert right > wrong + 0.2


@needs_the_encoder
def test_it_gives_its_golden_scores_however_it_is_run() -> None:
    checks = check(BleurtScorer("bundled:metric-base", device="cpu"))
    assert any("selftest.json" in one.what for one in checks)
    assert [one.what for one in checks if not one.passed] == []
