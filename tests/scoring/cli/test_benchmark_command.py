"""`bleurt benchmark`: the pipeline's own numbers on any ratings, in every form, and mistakes."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy
import pytest
from scipy import stats

from pipeline.core.params import load_key
from pipeline.core.records import AGREEMENT, RATINGS
from pipeline.core.shards import read_rows, shard_name, table_of, write_shard
from pipeline.evaluate.evaluation import EvaluateParams, evaluate
from pipeline.scoring.__main__ import main
from pipeline.scoring.cli import benchmark as command
from pipeline.scoring.contenders import named_checkpoints, params_file
from pipeline.scoring.scorer import BleurtScorer

WORDS = ["the", "cat", "dog", "sat", "on", "mat", "ran", "red", "house", "paris", "small", "bird"]


def rating(number: int) -> dict[str, Any]:
    rng = numpy.random.default_rng(number)
    reference = list(numpy.random.default_rng(1000 + number // 4).choice(WORDS, 6))
    candidate = [word if rng.random() < 0.6 else str(rng.choice(WORDS)) for word in reference]
    quality = sum(z == c for z, c in zip(reference, candidate, strict=True)) / 6
    return {
        "rating_id": f"own/{number}",
        "corpus": "own",
        "split": ("test", "test", "test", "train")[number % 4],
        "aspect": "adequacy",
        "reference": " ".join(reference),
        "other_references": [],
        "candidate": " ".join(candidate),
        "source": None,
        "language_pair": ("de-en", "fr-en")[number // 4 % 2],
        "system": None,
        "segment": f"s{number // 4}",
        "year": None,
        "raw": 100 * quality,
        "z": None,
        "score": quality,
    }


ROWS = [rating(number) for number in range(48)]
FEW = ["--baselines", "sentbleu", "ter", "--resamples", "30", "--permutations", "20"]


@pytest.fixture
def collected(tmp_path: Path) -> Path:
    """A folder as the stage collect writes it."""
    write_shard(tmp_path / "collect" / shard_name(0), table_of(ROWS, RATINGS))
    return tmp_path / "collect"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A file of one's own ratings, on a scale to 100, without language pairs."""
    file = tmp_path / "mine.jsonl"
    rows = [{"reference": row["reference"], "candidate": row["candidate"], "score": row["raw"]} for row in ROWS]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


def benchmark(ratings: Path, checkpoint: Path, *options: str) -> int:
    return main(["benchmark", "--ratings", str(ratings), "-c", str(checkpoint), *FEW, *options])


def test_exported_scores_come_back_as_published_ones(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = [{**row, "system": "abc"[n % 4 % 3], "segment": str(n // 4 + 1)} for n, row in enumerate(ROWS)]
    nameless = {**ROWS[0], "rating_id": "own/x", "language_pair": "cs-en"}
    write_shard(tmp_path / "named" / shard_name(0), table_of(named, RATINGS))
    write_shard(tmp_path / "more" / shard_name(0), table_of([*named, nameless], RATINGS))
    assert benchmark(tmp_path / "more", checkpoint, "--export", str(tmp_path / "scores")) == 0
    said = capsys.readouterr().err
    assert "scores: 6 files of scores" in said
    assert "1 ratings have no system, or no number of a segment, and are not in these files" in said
    files = [str(tmp_path / "scores" / name) for name in ("sentbleu.seg.score", "ter.sys.score")]
    assert benchmark(tmp_path / "named", checkpoint, "--published", *files, "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    values = {(row["metric"], row["language_pair"], row["statistic"]): row["value"] for row in found["agreement"]}
    for statistic in ("kendall", "pearson", "darr", "system_pearson"):
        published = values["published/sentbleu", "average", statistic]
        assert published == pytest.approx(values["sentbleu", "average", statistic])
    assert values["published/ter", "average", "system_pearson"] == values["ter", "average", "system_pearson"]
    assert found["signatures"]["published/ter"] == "as published in ter.sys.score"


def test_pairs_that_were_cut_are_counted(checkpoint: Path, collected: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["benchmark", "--ratings", str(collected), "-c", str(checkpoint), *FEW]
    assert main([*arguments, "--max_tokens", "8"]) == 0
    assert "36 of 36 pairs have more than 8 tokens and were cut" in capsys.readouterr().err
    assert main(arguments) == 0
    assert "were cut" not in capsys.readouterr().err


def test_the_numbers_are_those_of_the_stage_evaluate(
    collected: Path,
    checkpoint: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BLEURT_WORKERS", "1")
    shutil.copytree(checkpoint, tmp_path / "finetune" / "all")
    params = EvaluateParams(
        baselines=("sentbleu", "ter"), published=(), max_tokens=64, batch_tokens=8192,
        resamples=30, confidence=0.95, permutations=20, darr_gap=25.0, seed=1,
    )  # fmt: skip
    evaluate(params, {}, ["all"], collected, tmp_path / "finetune", tmp_path / "out")
    expected = list(read_rows(tmp_path / "out" / "agreement", AGREEMENT))
    capsys.readouterr()
    assert benchmark(collected, tmp_path / "finetune" / "all", "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["agreement"] == expected and len(expected) == 3 * 3 * 4  # metrics, pairs and average, statistics
    assert found["significance"] == json.loads((tmp_path / "out" / "significance.json").read_text())
    assert found["signatures"]["bleurt/all"].endswith("|max_tokens:64|references:max|long:cut|edges:none")


def test_own_ratings_are_all_used(own: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    benchmark(own, checkpoint, "--scale", "100", "--format", "json")
    rows = {(row["metric"], row["statistic"]): row for row in json.loads(capsys.readouterr().out)["agreement"]}
    scores = BleurtScorer(checkpoint, device="cpu").score(
        [r["reference"] for r in ROWS], [r["candidate"] for r in ROWS]
    )
    kendall = rows[f"bleurt/{checkpoint.name}", "kendall"]
    assert kendall["count"] == 48 and kendall["corpus"] == "mine"
    assert kendall["value"] == pytest.approx(stats.kendalltau([r["raw"] for r in ROWS], scores).statistic, abs=1e-6)
    assert ("ter", "darr") in rows


def test_text_has_a_table_by_language_pair(
    collected: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark(collected, checkpoint)
    out = capsys.readouterr().out
    assert out.startswith("own, adequacy: agreement with people x 100, 36 rated segments (95% interval)")
    assert "Pearson r x 100 by language pair" in out and "de-en" in out and "paired permutation test" in out
    assert "sentbleu: nrefs:1|case:mixed" in out and " p holm" in out
    benchmark(collected, checkpoint, "--format", "latex", "--split", "train")
    assert capsys.readouterr().out.startswith("% own, adequacy: agreement with people x 100, 12 rated segments")


def test_checkpoints_of_one_name_are_told_apart(checkpoint: Path, tmp_path: Path) -> None:
    twin = shutil.copytree(checkpoint, tmp_path / checkpoint.name)
    assert list(named_checkpoints([str(checkpoint), str(twin)])) == [f"bleurt/{checkpoint}", f"bleurt/{twin}"]
    assert list(named_checkpoints([str(twin)])) == [f"bleurt/{twin.name}"]


def test_mistakes_are_one_sentence(
    own: Path, collected: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = [
        (own, "--scale", "50"),
        (own, "--scale", "-1"),
        (own.with_name("absent.csv"),),
        (collected, "--split", "dev"),
        (own, "--max_tokens", "65"),
        (own, "-c", str(checkpoint), str(checkpoint)),
    ]
    assert [benchmark(ratings, checkpoint, *options) for ratings, *options in wrong] == [2] * 6
    errors = capsys.readouterr().err.splitlines()
    assert "score lies outside the scale 0-50" in errors[0]
    assert errors[1] == "error: --scale: must be a positive number, not -1.0."
    assert errors[2].endswith("absent.csv: no such file or folder.")
    assert errors[3].endswith("collect: no row has the split: 'dev'.")
    assert errors[4] == "error: --max_tokens: must lie between 5 and 64 for this model, not 65."
    assert errors[5] == "error: --checkpoint names a checkpoint twice."


def test_a_baseline_of_systems_adds_columns_for_all_metrics(
    tmp_path: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{**row, "split": "test", "system": f"s{number % 4}"} for number, row in enumerate(ROWS)]
    write_shard(tmp_path / "systems" / shard_name(0), table_of(rows, RATINGS))
    arguments = ["benchmark", "--ratings", str(tmp_path / "systems"), "-c", str(checkpoint), *FEW]
    assert main([*arguments[:5], "--baselines", "chrf++", "BLEU", *FEW[3:]]) == 0
    out = capsys.readouterr().out
    heading, _, *lines = out.splitlines()[2:7]
    assert heading.split()[-4:] == ["System", "τ-b", "System", "r"]
    assert "System r x 100 by language pair" in out and "bleu: corpus, all references, case:mixed|eff:no" in out
    bleu = next(line for line in lines if line.startswith("bleu "))
    assert len(bleu.split()) == 3  # two statistics of systems, none of segments
    assert main(arguments) == 0
    assert "System" not in capsys.readouterr().out


def test_texts_are_limited_as_collect_limits_them(
    own: Path, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = load_key(params_file(), "collect")["max_words"]
    row = {"reference": "cat " * words, "candidate": "cat " * (words + 1), "score": 50}
    with own.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(row) + "\n")
    assert len(command.read_ratings(own, 100.0, "test")) == 48
    assert "1 rows are left out: a reference or the candidate is too long" in capsys.readouterr().err
    params = tmp_path / "params.yaml"
    params.write_text("collect: {max_words: 1000}\n", encoding="utf-8")
    monkeypatch.setattr(command, "params_file", lambda: params)
    assert len(command.read_ratings(own, 100.0, "test")) == 49


def test_an_unknown_baseline_is_refused(own: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["benchmark", "--ratings", str(own), "-c", str(checkpoint), "--baselines", "blue"])
    assert ended.value.code == 2
    assert "--baselines: must be one of bertscore, " in capsys.readouterr().err
