"""`bleurt compare`: what is printed, what the numbers are, familiar metrics, mistakes."""

import dataclasses
import json
import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.ter import TER
from tiny_filler import save_tiny_filler

from pipeline.core.errors import ParamsError
from pipeline.core.params import from_mapping
from pipeline.evaluate.metrics import Settled, known_metrics
from pipeline.evaluate.metrics.embeddings import Encoder
from pipeline.scoring.__main__ import main
from pipeline.scoring.calibration import Anchors, Calibration, HumanScale
from pipeline.scoring.cli.compare import preferred, preferred_note, texts_of_system
from pipeline.scoring.contenders import SystemScores, baseline_scores
from pipeline.scoring.inputs import Segment
from pipeline.scoring.scorer import BleurtScorer
from pipeline.statistics.system_comparison import Settings, randomise, randomise_corpus

REFERENCES = ["the cat sat on the mat.", "a dog ran.", "the small red house", "the bird sat"]
BASE = ["the cat sat.", "a dog ran.", "a house", "the bird"]
RIVAL = ["the cat sat on the mat.", "a dog ran.", "paris", "the bird"]
BUNDLED = Path(__file__).resolve().parents[3] / "models" / "bundled" / "metric"
SETTINGS = Settings(resamples=50, permutations=200, confidence=0.9, tie_width=0.05, seed=1)


def familiar_scores(
    names: list[str],
    references: list[tuple[str, ...]],
    systems: list[list[str]],
    encoder: Encoder | None = None,
    sources: list[str] | None = None,
) -> list[SystemScores]:
    """What baselines say of systems."""
    segments = [
        Segment(texts, tuple(system[place] for system in systems), sources[place] if sources else None, None)
        for place, texts in enumerate(references)
    ]
    texts = [texts_of_system(segments, system) for system in range(len(systems))]
    return baseline_scores(
        [known_metrics()[name] for name in names], Settled({"bertscore": encoder}, {}), texts, SETTINGS
    )


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Paths of the reference and of three systems, of which the last equals the first."""
    found = {}
    for name, lines in {"ref": REFERENCES, "base": BASE, "rival": RIVAL, "copy": BASE}.items():
        file = tmp_path / f"{name}.txt"
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        found[name] = str(file)
    return found


def compare(checkpoint: Path, files: dict[str, str], systems: list[str], *options: str) -> int:
    paths = [files[name] for name in systems]
    return main(["compare", "-r", files["ref"], "-t", *paths, "-c", str(checkpoint), "--device", "cpu", *options])


def as_json(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_scores_differences_and_shares(
    checkpoint: Path, scorer: BleurtScorer, files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare(checkpoint, files, ["base", "rival", "copy"], "--format", "json", "--tie_width", "0.001") == 0
    found = as_json(capsys)
    base, rival = numpy.array(scorer.score(REFERENCES, BASE)), numpy.array(scorer.score(REFERENCES, RIVAL))
    assert [one["score"] for one in found["systems"]] == pytest.approx([base.mean(), rival.mean(), base.mean()])
    moved, copied = found["comparisons"]
    assert moved["difference"] == pytest.approx((rival - base).mean(), abs=1e-6)
    assert moved["tied"] == 0.5 and moved["better"] == ((rival - base) > 0.001).mean()
    assert moved["better"] + moved["worse"] == 0.5
    assert (copied["difference"], copied["tied"], copied["p_bootstrap"], copied["p_randomisation"]) == (0, 1, 1, 1)
    assert moved["p_randomisation_holm"] == min(1.0, 2 * moved["p_randomisation"])
    assert found["signature"] == str(scorer.signature()) and moved["preferred"] is None


def test_the_segments_that_changed_most(
    checkpoint: Path, scorer: BleurtScorer, files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    compare(checkpoint, files, ["base", "rival"], "--format", "json", "--changed", "9")
    changed = as_json(capsys)["comparisons"][0]["changed"]
    difference = numpy.array(scorer.score(REFERENCES, RIVAL)) - numpy.array(scorer.score(REFERENCES, BASE))
    order = sorted([0, 2], key=lambda row: -abs(difference[row]))
    assert [one["segment"] for one in changed] == [row + 1 for row in order]
    assert changed[0]["after"] - changed[0]["before"] == pytest.approx(difference[order[0]], abs=1e-6)
    third = next(one for one in changed if one["segment"] == 3)
    assert (third["candidate_before"], third["candidate_after"]) == ("a house", "paris")


def test_text_shows_tables_segments_and_signature(
    checkpoint: Path, scorer: BleurtScorer, files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path(files["rival"]).write_text("\n".join([*RIVAL[:3], "the \x1b[31mbird"]) + "\n", encoding="utf-8")
    compare(checkpoint, files, ["base", "rival"], "--baselines", "bleu", "ter", "--width", "2")
    out = capsys.readouterr().out
    assert out.startswith("scores (95% interval)") and "randomisation holm" in out and "p BLEU" in out
    assert "preferred" not in out
    assert f"segments that changed most, {files['rival']} against {files['base']}" in out
    assert "BLEU: nrefs:1|case:mixed" in out and out.rstrip().endswith(str(scorer.signature()))
    assert "\x1b" not in out and "·[31mbird" in out


def test_latex_is_tables_and_comments(
    checkpoint: Path, files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    compare(checkpoint, files, ["base", "rival"], "--format", "latex")
    out = capsys.readouterr().out
    assert out.count("\\begin{tabular}") == 3
    outside = re.sub(r"\\begin\{tabular\}.*?\\end\{tabular\}", "", out, flags=re.DOTALL)
    assert all(line.startswith("% ") for line in outside.splitlines() if line)


def test_one_segment_has_a_score_and_no_tests(
    checkpoint: Path, files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    for name, lines in {"ref": REFERENCES, "base": BASE, "rival": RIVAL}.items():
        Path(files[name]).write_text(lines[0] + "\n", encoding="utf-8")
    compare(checkpoint, files, ["base", "rival"], "--format", "json")
    only = as_json(capsys)["comparisons"][0]
    assert (only["low"], only["p_bootstrap"], only["p_randomisation_holm"]) == (None, None, None)


def test_what_was_flagged_or_cut_is_said_for_each_system(
    checkpoint: Path, files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path(files["rival"]).write_text("\n".join(["", "a dog ran.", "paris", "the bird " * 200]) + "\n", encoding="utf-8")
    assert compare(checkpoint, files, ["base", "rival"]) == 0
    err = capsys.readouterr().err
    assert f"warning: {files['rival']}: 1 segments have more than 64 tokens and were cut" in err
    assert f"warning: {files['rival']}: flagged segments: 1 empty_candidate, 1 identical" in err
    assert f"warning: {files['base']}: flagged segments: 1 identical" in err


def test_mistakes_are_one_sentence(checkpoint: Path, files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(checkpoint, files, ["base"]) == 2
    assert compare(checkpoint, files, ["base", "rival"], "--confidence", "95") == 2
    assert capsys.readouterr().err.splitlines() == [
        "error: compare needs two systems at least: name a file for each after -t.",
        "error: compare.confidence: must be below 1, not 95.0.",
    ]
    values = {"resamples": 10, "permutations": 10, "confidence": 0.9, "tie_width": math.nan, "seed": 1}
    with pytest.raises(ParamsError, match=r"compare\.tie_width: must be finite, not nan"):
        from_mapping(values, Settings, "compare")


def test_preferred_is_the_mean_probability() -> None:
    def probability_better(difference: float) -> float:
        return 0.5 + difference / 4

    calibrated = SimpleNamespace(calibration=SimpleNamespace(probability_better=probability_better))
    assert preferred(calibrated, numpy.array([1.0, -1.0, 0.0, 2.0])) == 0.625  # 0.75, 0.25, 0.5, 1
    unknown = SimpleNamespace(calibration=SimpleNamespace(probability_better=lambda difference: None))
    assert preferred(unknown, numpy.array([1.0])) is None


def test_familiar_metrics_are_sacrebleus() -> None:
    references = [(text, "a dog ran.") for text in REFERENCES]
    bleu, ter = familiar_scores(["bleu", "ter"], references, [BASE, RIVAL])
    streams = [list(stream) for stream in zip(*references, strict=True)]
    assert bleu.scores == tuple(BLEU().corpus_score(system, streams).score for system in (BASE, RIVAL))
    assert ter.scores == tuple(TER().corpus_score(system, streams).score for system in (BASE, RIVAL))
    assert bleu.p_values[0] is None and 0 < (bleu.p_values[1] or 0) <= 1
    assert bleu.signature.startswith("nrefs:2|case:mixed")


def test_equal_systems_and_few_segments_are_never_significant() -> None:
    references = [(text,) for text in REFERENCES]
    for found in familiar_scores(["bleu", "chrf", "ter"], references, [BASE, BASE, RIVAL]):
        assert found.scores[0] == found.scores[1] and found.p_values[1] == 1.0, found.metric
        # two of four segments differ: at least half of the arrangements are the observed one or its mirror image
        assert (found.p_values[2] or 0) >= 0.4, found.metric


def test_a_corpus_score_is_randomised_as_exactly_as_all_arrangements_say() -> None:
    first, second = numpy.array([[4.0, 1], [2, 1], [3, 1]]), numpy.array([[5.0, 1], [4, 1], [7, 1]])

    def mean(counts: numpy.ndarray) -> float:
        return float(counts[0] / counts[1])

    # differences 1, 2 and 4 can be signed in eight ways, two of which are as far from 0 as 7
    assert randomise_corpus(first, second, mean, 4000, seed=1) == pytest.approx(0.25, abs=0.03)
    differences = (second - first)[:, 0]
    assert randomise_corpus(first, second, mean, 400, seed=1) == randomise(differences, 400, seed=1)


def test_empty_references_beside_others_are_left_out() -> None:
    several = [(text, "" if number % 2 else text) for number, text in enumerate(REFERENCES)]
    alone = [(text, text) for text in REFERENCES]
    names = ["bleu", "chrf", "ter"]
    found = familiar_scores(names, several, [BASE, RIVAL])
    assert [one.scores for one in found] == [one.scores for one in familiar_scores(names, alone, [BASE, RIVAL])]


def test_familiar_metrics_read_character_references_as_the_metric_does(
    checkpoint: Path, files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path(files["base"]).write_text("\n".join(BASE).replace(".", "&#46;") + "\n", encoding="utf-8")
    options = ["--baselines", "chrf", "--format", "json"]
    assert compare(checkpoint, files, ["base", "copy"], *options) == 0
    (undone,) = as_json(capsys)["baselines"]
    assert undone["scores"][files["base"]] == undone["scores"][files["copy"]]
    assert compare(checkpoint, files, ["base", "copy"], *options, "--character_references", "kept") == 0
    found = as_json(capsys)
    (kept,) = found["baselines"]
    assert kept["scores"][files["base"]] < kept["scores"][files["copy"]] == undone["scores"][files["copy"]]
    assert "|character_references:kept|" in found["signature"]


def test_bertscore_takes_the_best_reference(tmp_path: Path) -> None:
    encoder = Encoder(str(save_tiny_filler(tmp_path / "encoder")), 1)
    references = [("mat", text) for text in BASE]
    (found,) = familiar_scores(["bertscore"], references, [BASE, RIVAL], encoder)
    assert found.scores[0] == pytest.approx(1.0, abs=1e-5) and found.scores[1] < 0.999
    assert found.p_values == (None, pytest.approx(0.5, abs=0.12))  # two of four segments differ, both for the worse


def test_what_preferred_was_calibrated_on_is_said(
    checkpoint: Path, files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    def note(**values: Any) -> str | None:
        known = Calibration(
            percentiles=(0.0, 1.0), anchors=Anchors(1.0, 0.0, -1.0), low=0.0, high=1.0,
            human=HumanScale(0.0, 1.0, 0.5, 0.1, None, None), slope=2.0, corpora=("a",), split="validation", rows=9,
            pairs=1200,
        )  # fmt: skip
        return preferred_note(SimpleNamespace(calibration=dataclasses.replace(known, **values)))

    of_one = "preferred: P(better) was calibrated on 1,200 pairs of candidates of one reference"
    assert note() == f"{of_one}."
    checked = note(references=300, error=2.55, error_by_chance=2.0)
    error = "its calibration error on held-out references is 2.5 points of 100"
    assert checked == f"{of_one}, 300 references; {error}."
    of_several = note(pairs_of="language pair")
    assert of_several is not None and "1,200 pairs of candidates of different references" in of_several
    assert preferred_note(SimpleNamespace(calibration=None)) is None
    compare(checkpoint, files, ["base", "rival"], "--format", "json")
    assert as_json(capsys)["preferred_note"] is None
    with pytest.raises(SystemExit):
        main(["compare", "--help"])
    assert "pairs of candidates of different references" in " ".join(capsys.readouterr().out.split())


def test_the_bundled_metric_says_on_which_pairs_it_was_calibrated(
    files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["compare", "-r", files["ref"], "-t", files["base"], files["rival"], "--device", "cpu"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    known = json.loads((BUNDLED / "calibration.json").read_text())
    assert known["pairs_of"] == "reference"
    said = f"preferred: P(better) was calibrated on {known['pairs']:,} pairs of candidates of one reference"
    assert said in out
    assert f"held-out references is {known['error']:.1f} points of 100" in out
    assert main([*arguments, "--format", "json"]) == 0
    assert as_json(capsys)["preferred_note"].startswith(said)


def test_every_metric_of_the_benchmark_compares_systems() -> None:
    references = [(text,) for text in REFERENCES]
    (found,) = familiar_scores(["rougeL"], references, [REFERENCES, BASE])
    assert found.metric == "rougeL" and found.scores[0] == 1.0 > found.scores[1]
    assert found.signature == "rouge-score rougeL F, lower-cased, no stemming"
