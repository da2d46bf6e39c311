"""Scores of contradictions are lowered by a classifier of entailment, in every command that offers it."""

import json
import pickle
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy
import pytest

from pipeline.core.errors import ParamsError
from pipeline.label.signals import entailment as signal
from pipeline.scoring import contradiction
from pipeline.scoring.__main__ import main
from pipeline.scoring.contradiction import FREE, WEIGHT, contradictions, losses
from pipeline.scoring.scorer import BleurtScorer

MODEL = "bundled:entailment"
REFERENCE, OPPOSITE = "A man is sleeping on the red sofa outside.", "A woman is sleeping on the red sofa outside."


@pytest.fixture
def sure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The small classifier's probabilities count from 0.2 on: it is seldom as sure as the large one."""
    monkeypatch.setattr(contradiction, "FREE", 0.2)


def test_the_clearer_direction_counts_and_only_near_copies_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    text, copy, other = "a b c d e f", "a b c d e g", "a b c d e h"
    said = {(text, copy): 0.1, (copy, text): 0.6, (text, other): 0.9, (other, text): 0.7}

    def entailment(premises: Sequence[str], hypotheses: Sequence[str], params: signal.Params) -> numpy.ndarray:
        assert params.model == "some/model"
        return numpy.array([[0.0, said[pair], 1 - said[pair]] for pair in zip(premises, hypotheses, strict=True)])

    monkeypatch.setattr(signal, "entailment", entailment)
    found = contradictions("some/model", [text] * 4 + [""], [copy, other, text, "a b c d x y", ""])
    assert found == pytest.approx([0.6, 0.9, *[numpy.nan] * 3], nan_ok=True)
    monkeypatch.setattr(signal, "entailment", None)
    assert numpy.isnan(contradictions("some/model", [text], [""])).all()


def test_a_loss_begins_evenly_and_has_an_end() -> None:
    found = losses(numpy.array([numpy.nan, 0.0, FREE, (1 + FREE) / 2, 1.0]))
    assert found == pytest.approx([0.0, 0.0, 0.0, WEIGHT / 2, WEIGHT])


@pytest.mark.usefixtures("sure")
def test_a_scorer_lowers_contradictions_and_nothing_else(checkpoint: Path, scorer: BleurtScorer) -> None:
    strict = BleurtScorer(checkpoint, device="cpu", entailment=MODEL)
    candidates = [OPPOSITE, REFERENCE, "the cat sat", ""]
    expected = contradictions(MODEL, [REFERENCE] * 4, candidates)
    assert expected[0] > contradiction.FREE and numpy.isnan(expected[1:]).all()
    plain, found = (one.score_detailed([REFERENCE] * 4, candidates) for one in (scorer, strict))
    assert [one.contradiction for one in found] == [pytest.approx(expected[0], abs=1e-5), None, None, None]
    lost = [before.score - after.score for before, after in zip(plain, found, strict=True)]
    assert lost == pytest.approx(losses(expected).tolist(), abs=1e-5) and lost[0] > 0.1
    assert {one.contradiction for one in plain} == {None}

    several = strict.score_detailed([[REFERENCE, OPPOSITE]], [OPPOSITE])[0]
    assert several.contradiction == found[0].contradiction
    assert several.score == pytest.approx(max(found[0].score, scorer.score([OPPOSITE], [OPPOSITE])[0]), abs=1e-5)

    assert str(strict.signature()).startswith(f"{scorer.signature()}|entailment:")
    assert "entailment" not in scorer.signature().as_dict()
    assert pickle.loads(pickle.dumps(strict)).signature() == strict.signature()


def test_a_checkpoint_that_reads_sources_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(checkpoint, tmp_path / "source")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, "reads": "source"}), encoding="utf-8")
    with pytest.raises(ParamsError, match="entailment: needs a checkpoint that reads references and no sources"):
        BleurtScorer(folder, device="cpu", entailment=MODEL)


@pytest.mark.usefixtures("sure")
def test_the_commands_offer_it(
    checkpoint: Path, scorer: BleurtScorer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`score` says the probability, `benchmark` puts both metrics beside each other."""
    rows = [
        {"reference": REFERENCE, "candidate": OPPOSITE, "score": 1},
        {"reference": "the cat sat", "candidate": "a cat sat", "score": 80},
        {"reference": "a dog ran", "candidate": "the bird", "score": 10},
    ]
    file = tmp_path / "pairs.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    options = ["--checkpoint", str(checkpoint), "--entailment", MODEL]
    assert main(["score", "--input", str(file), "--format", "json", "--quiet", *options]) == 0
    about = [json.loads(line)["bleurt"] for line in capsys.readouterr().out.splitlines()]
    assert about[0]["contradiction"] > contradiction.FREE and "|entailment:" in about[0]["signature"]
    plain = scorer.score([REFERENCE], [OPPOSITE])[0]
    assert about[0]["score"] == pytest.approx(plain - losses(numpy.array([about[0]["contradiction"]]))[0], abs=1e-5)
    assert main(["score", "--input", str(file), "--format", "json", "--quiet", *options[:2]]) == 0
    assert "contradiction" not in json.loads(capsys.readouterr().out.splitlines()[0])["bleurt"]

    few = ["--baselines", "--resamples", "9", "--permutations", "9", "--format", "json", "--scale", "100"]
    assert main(["benchmark", "--ratings", str(file), *options, *few]) == 0
    found = json.loads(capsys.readouterr().out)
    name = f"bleurt/{checkpoint.name}"
    assert set(found["signatures"]) == {name, f"{name}+entailment"}
    assert found["signatures"][f"{name}+entailment"].startswith(f"{found['signatures'][name]}|entailment:")
    assert set(found["seconds_of_1000_rows"]) == set(found["signatures"])
    pearson = {row["metric"]: row["value"] for row in found["agreement"] if row["statistic"] == "pearson"}
    assert pearson[f"{name}+entailment"] != pytest.approx(pearson[name])
