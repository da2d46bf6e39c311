"""Calibration: percentiles, pairs and their error as the command writes and prints them, the file."""

import dataclasses
import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy
import pytest

from pipeline.core.errors import ModelError
from pipeline.core.records import RATINGS
from pipeline.core.shards import table_of, write_shard
from pipeline.scoring.__main__ import main
from pipeline.scoring.calibration import Anchors, Calibration, HumanScale, load_calibration
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
    assert (found.rows, found.pairs, found.pairs_of, found.corpora) == (6, 15, "language pair", ("sample",))
    assert (found.references, found.error, found.checks) == (None, None, ())
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


def test_pairs_of_one_reference_give_the_slope_and_its_error(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """30 references with four candidates each in a table, beside six collected rows of one reference."""
    folder = calibrated(checkpoint, tmp_path)
    words = ["the", "cat", "dog", "sat", "mat", "red", "house", "bird"]
    rng = numpy.random.default_rng(2)
    lines = ["reference\tcandidate\tscore"]
    for _ in range(30):
        reference = rng.choice(words, 5)
        for kept in (1, 2, 3, 5):
            lines.append(f"{' '.join(reference)}\t{' '.join(reference[:kept])}\t{20 * kept}")
    mine = tmp_path / "mine.tsv"
    mine.write_text("\n".join(lines) + "\n", encoding="utf-8")
    before = (folder / "calibration.json").read_bytes()
    capsys.readouterr()
    out = tmp_path / "new" / "calibration.json"
    given = ["--comparisons", str(mine), str(tmp_path / "ratings"), "--scale", "100", "--out", str(out)]
    assert calibrate(folder, tmp_path / "ratings", *given) == 0
    found = load_calibration(out.parent)
    assert found is not None and (found.pairs_of, found.pairs, found.references) == ("reference", 180 + 21, 31)
    assert [(one.corpus, one.split, one.pairs) for one in found.checks] == [
        ("mine", "all", 180),
        ("sample", "validation", 21),  # of which six have a training row on the other side
    ]
    assert found.error is not None and found.error_by_chance is not None and 0 < found.error < 50
    printed = capsys.readouterr().out
    assert "P(A better than B): 201 pairs of candidates of one reference, 31 references" in printed
    assert f"calibration error on held-out references: {found.error:.1f} points of 100" in printed
    assert f"mine, all, 180 pairs: {found.checks[0].error:.1f} points" in printed
    assert (folder / "calibration.json").read_bytes() == before, "with --out the checkpoint stays as it is"


def test_too_few_pairs_of_one_reference_are_said(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calibrated(checkpoint, tmp_path)
    printed = capsys.readouterr().out
    assert "warning: there are fewer than 200 pairs of candidates of one reference" in printed
    assert "P(A better than B): 15 pairs of candidates of different references, which people compare" in printed
    assert "its error on candidates of one reference is not known" in printed


def test_a_file_of_earlier_versions_is_read(tmp_path: Path) -> None:
    values = dataclasses.asdict(KNOWN)
    for name in ("references", "error", "error_by_chance", "checks"):
        del values[name]
    (tmp_path / "calibration.json").write_text(json.dumps(values), encoding="utf-8")
    assert load_calibration(tmp_path) == KNOWN


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "no such file or folder."),
        ("reference,candidate\na,b\n", "line 1: the column is missing: 'score'."),
        ("reference,candidate,score\na,b,good\n", "line 2: score is not a number: 'good'."),
    ],
)
def test_what_is_wrong_with_a_file_of_ratings_is_said(
    checkpoint: Path, tmp_path: Path, text: str | None, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.csv"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    assert calibrate(checkpoint, file) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {file}") and error.endswith(f"{expected}\n") and error.count("\n") == 1


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"percentiles": [1, 2]}', json.dumps({"percentiles": ["a"], "corpora": []})]
)
def test_a_damaged_calibration_is_one_sentence(tmp_path: Path, content: str) -> None:
    (tmp_path / "calibration.json").write_text(content, encoding="utf-8")
    with pytest.raises(
        ModelError, match=f"^{tmp_path}/calibration.json: no calibration; write it again or remove it.$"
    ):
        load_calibration(tmp_path)
