"""Calibration: the logistic slope by hand and against its definition, pairs of one segment, percentiles, the file."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy
import pytest
from scipy.optimize import brentq

from pipeline.core.errors import ModelError
from pipeline.core.records import RATINGS
from pipeline.core.shards import table_of, write_shard
from pipeline.scoring.__main__ import main
from pipeline.scoring.calibration import (
    LANGUAGE_PAIR,
    NEIGHBOURS,
    Anchors,
    Calibration,
    HumanScale,
    fit_slope,
    load_calibration,
    rated_pairs,
)
from pipeline.scoring.scorer import BleurtScorer

KNOWN = Calibration(
    percentiles=(-1.0, 0.0, 0.5, 1.0, 2.0),
    anchors=Anchors(1.5, -0.5, -0.9),
    low=-1.0,
    high=2.0,
    human=HumanScale(-2.0, 2.0, 0.0, 1.0, 0.0, 100.0),
    slope=math.log(3),
    corpora=("sample",),
    split="validation",
    rows=5,
    pairs=4,
    pairs_of="reference",
)


def row(number: int, **values: Any) -> dict[str, Any]:
    """A rated row; `values` replace what is the same in all."""
    return {
        "rating_id": str(number), "corpus": "sample", "split": "validation", "aspect": "adequacy", "segment": "1",
        "reference": "the cat", "other_references": [], "candidate": "the cat", "source": None, "language_pair": None,
        "system": None, "year": None, "raw": None, "z": None, "score": 0.0, **values,
    }  # fmt: skip


def test_the_slope_is_the_log_odds_where_all_differences_are_one() -> None:
    differences, better = numpy.array([1.0, -1.0, 1.0, -1.0, 1.0]), numpy.array([True, False, True, True, True])
    assert fit_slope(differences, better) == pytest.approx(math.log(4 / 1), abs=1e-4)
    assert fit_slope(differences, ~better) == pytest.approx(-math.log(4 / 1), abs=1e-4)


def test_the_slope_is_where_the_likelihood_has_no_gradient() -> None:
    rng = numpy.random.default_rng(3)
    differences = rng.normal(scale=0.2, size=500)
    better = rng.random(500) < 1 / (1 + numpy.exp(-7 * differences))
    expected = brentq(lambda k: float((differences * (better - 1 / (1 + numpy.exp(-k * differences)))).sum()), 0, 30)
    assert fit_slope(differences, better) == pytest.approx(expected, rel=1e-4)


def test_without_differences_there_is_no_slope() -> None:
    assert fit_slope(numpy.zeros(0), numpy.zeros(0, bool)) is None
    assert fit_slope(numpy.zeros(3), numpy.ones(3, bool)) is None


def test_pairs_are_candidates_of_one_segment_that_people_told_apart() -> None:
    rows = [
        row(0, score=0.1), row(1, score=0.9), row(2, score=0.1), row(3, score=0.5, segment="2"),
        row(4, score=0.7, reference="a dog"), row(5, score=0.2, corpus="other"), row(6, score=0.3, segment="2"),
    ]  # fmt: skip
    differences, better = rated_pairs(rows, numpy.array([1.0, 3.0, 0.5, 4.0, 9.0, 9.0, 4.25]))
    assert differences.tolist() == [-2.0, 2.5, -0.25]
    assert better.tolist() == [False, True, True]


def test_pairs_of_different_references_stay_within_a_language_pair() -> None:
    rows = [row(0, score=0.1), row(1, score=0.9, reference="a dog"), row(2, score=0.5, language_pair="de-en")]
    differences, better = rated_pairs(rows, numpy.array([1.0, 3.0, 9.0]), LANGUAGE_PAIR)
    assert (differences.tolist(), better.tolist()) == ([-2.0], [False])


def test_a_row_meets_few_neighbours_where_there_are_thousands() -> None:
    rows = [row(i, score=float(i)) for i in range(NEIGHBOURS + 2)]
    differences, _ = rated_pairs(rows, numpy.arange(NEIGHBOURS + 2.0))
    assert len(differences) == (NEIGHBOURS + 2) * (NEIGHBOURS + 1) / 2 - 1
    assert differences.min() == -NEIGHBOURS


def test_percentiles_and_probabilities_by_hand() -> None:
    assert [KNOWN.percentile(score) for score in (-7.0, 0.25, 1.0, 1.5, 7.0)] == [0.0, 37.5, 75.0, 87.5, 100.0]
    assert KNOWN.probability_better(1.0) == pytest.approx(0.75)
    assert KNOWN.probability_better(-1.0) == pytest.approx(0.25)
    assert KNOWN.probability_better(0.0) == 0.5
    assert KNOWN.probability_better(-1e6) == 0.0


def calibrated(checkpoint: Path, folder: Path) -> Path:
    """A copy of `checkpoint` that the command calibrated on six rated rows."""
    copied = Path(shutil.copytree(checkpoint, folder / "metric"))
    texts = ["the cat", "a cat", "the dog", "a dog", "the bird ran", ""]
    rows = [row(i, candidate=text, score=i / 5, raw=20.0 * i) for i, text in enumerate(texts)]
    rows += [row(6, split="train", candidate="paris"), row(7, aspect="fluency", candidate="paris")]
    (folder / "ratings").mkdir()
    write_shard(folder / "ratings" / "part-00000.parquet", table_of(rows, RATINGS))
    assert calibrate(copied, folder / "ratings") == 0
    return copied


def calibrate(checkpoint: Path, ratings: Path, *others: str) -> int:
    """Exit code of `bleurt calibrate` on the CPU."""
    return main(["calibrate", "--checkpoint", str(checkpoint), "--ratings", str(ratings), "--device", "cpu", *others])


def test_the_command_writes_what_the_scorer_reads(checkpoint: Path, tmp_path: Path) -> None:
    folder = calibrated(checkpoint, tmp_path)
    found = load_calibration(folder)
    scorer = BleurtScorer(folder, device="cpu")
    assert found is not None and scorer.calibration == found
    assert (found.rows, found.pairs, found.pairs_of, found.corpora) == (6, 15, "reference", ("sample",))
    assert found.split == "validation"
    assert found.human == HumanScale(0.0, 1.0, pytest.approx(0.5), pytest.approx(0.341565, abs=1e-6), 0.0, 100.0)
    scores = scorer.score(["the cat"] * 6, ["the cat", "a cat", "the dog", "a dog", "the bird ran", ""])
    assert found.percentiles[0] == pytest.approx(min(scores), abs=1e-5)
    assert found.percentiles[50] == pytest.approx(float(numpy.median(scores)), abs=1e-5)
    assert found.anchors == Anchors(*(pytest.approx(scores[i], abs=1e-5) for i in (0, 0, 5)))
    assert found.high == pytest.approx(max(scores), abs=1e-5)
    detailed = scorer.score_detailed(["the cat"] * 2, ["the dog", "a dog"])
    assert [one.percentile for one in detailed] == [found.percentile(one.score) for one in detailed]


def test_percentiles_on_the_command_line(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BLEURT_DEVICE", "cpu")
    folder = calibrated(checkpoint, tmp_path)
    capsys.readouterr()  # what calibrating prints
    for name, text in (("r", "the cat\nthe cat\n"), ("c", "the dog\na cat\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    given = ["-r", str(tmp_path / "r"), "-t", str(tmp_path / "c"), "-c", str(folder), "--percentiles", "--width", "3"]
    assert main(given) == 0
    scored = BleurtScorer(folder, device="cpu").score_detailed(["the cat"] * 2, ["the dog", "a cat"])
    found = capsys.readouterr()
    assert [float(line) for line in found.out.splitlines()] == pytest.approx(
        [one.percentile for one in scored], abs=1e-2
    )
    assert f"mean percentile {sum(one.percentile for one in scored) / 2:.1f}" in found.err
    assert main([*given, "--only_system", "--format", "json"]) == 0
    (system,) = json.loads(capsys.readouterr().out)["systems"]
    assert system["score"] == pytest.approx(sum(one.score for one in scored) / 2), "a score is never a percentile"
    assert system["percentile"] == pytest.approx(sum(one.percentile for one in scored) / 2)


def test_rows_of_another_split_alone_are_refused(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = calibrated(checkpoint, tmp_path)
    before = (folder / "calibration.json").read_bytes()
    assert calibrate(folder, tmp_path / "ratings", "--split", "test") == 2
    assert capsys.readouterr().err == f"error: {tmp_path}/ratings: no rated row of adequacy: 'test'.\n"
    assert (folder / "calibration.json").read_bytes() == before


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"percentiles": [1, 2]}', json.dumps({"percentiles": ["a"], "corpora": []})]
)
def test_a_damaged_calibration_is_one_sentence(tmp_path: Path, content: str) -> None:
    (tmp_path / "calibration.json").write_text(content, encoding="utf-8")
    with pytest.raises(
        ModelError, match=f"^{tmp_path}/calibration.json: no calibration; write it again or remove it.$"
    ):
        load_calibration(tmp_path)
