"""`bleurt benchmark`: the pipeline's own numbers on any ratings, in every form, and mistakes."""

import itertools
import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pandas
import pytest
from scipy import stats
from tiny_filler import save_tiny_filler

from pipeline.core.params import load_key
from pipeline.core.records import AGREEMENT, CLUSTERS, RATINGS
from pipeline.core.shards import read_rows, shard_name, table_of, write_shard
from pipeline.evaluate.benchmark import as_records
from pipeline.evaluate.evaluation import EvaluateParams, evaluate
from pipeline.evaluate.metrics.embeddings import layer_kendalls
from pipeline.scoring import ratings
from pipeline.scoring.__main__ import main
from pipeline.scoring.cli import benchmark as benchmark_command
from pipeline.scoring.contenders import named_checkpoints, params_file
from pipeline.scoring.scorer import BleurtScorer
from pipeline.scoring.unusual_texts import CharacterReferences

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


def test_checkpoints_score_in_the_precision_that_is_named(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{**row, "system": "a", "segment": str(number + 1)} for number, row in enumerate(ROWS)]
    write_shard(tmp_path / "rows" / shard_name(0), table_of(rows, RATINGS))
    found = {}
    for name in ("float32", "bf16"):
        options = ["--precision", name, "--export", str(tmp_path / name), "--format", "json"]
        assert benchmark(tmp_path / "rows", checkpoint, *options) == 0
        signatures = json.loads(capsys.readouterr().out)["signatures"]
        assert f"precision:{name}" in signatures[next(one for one in signatures if one.startswith("bleurt/"))]
        (file,) = (tmp_path / name).glob("bleurt*.seg.score")
        found[name] = [float(line.split("\t")[-1]) for line in file.read_text(encoding="utf-8").splitlines()]
    assert found["bf16"] != found["float32"]
    assert numpy.corrcoef(found["bf16"], found["float32"])[0, 1] > 0.98


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
    expected = as_records(pandas.DataFrame(read_rows(tmp_path / "out" / "agreement", AGREEMENT)))
    capsys.readouterr()
    assert benchmark(collected, tmp_path / "finetune" / "all", "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["agreement"] == expected
    assert len(expected) == 3 * 3 * (4 + 4)  # metrics, pairs and average, statistics of the headline and of ties
    clusters = list(read_rows(tmp_path / "out" / "clusters", CLUSTERS))
    assert [{**row, "p_values": dict(row["p_values"])} for row in clusters] == found["clusters"]
    assert found["significance"] == json.loads((tmp_path / "out" / "significance.json").read_text())
    assert found["signatures"]["bleurt/all"].endswith(
        "|max_tokens:64|references:max|long:cut|character_references:as_collected|edges:none|activation:gelu"
        "|reads:reference"
    )


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


def test_seconds_of_1000_rows_are_told_by_metric(
    collected: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ticks = itertools.count(step=0.18)
    monkeypatch.setattr(benchmark_command, "time", SimpleNamespace(perf_counter=lambda: next(ticks)))
    arguments = ["benchmark", "--ratings", str(collected), "-c", str(checkpoint), *FEW]
    assert main([*arguments, "--baselines", "yisi2", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)["seconds_of_1000_rows"]
    assert told == {name: pytest.approx(5.0) for name in (f"bleurt/{checkpoint.name}", "sentbleu", "ter")}
    assert main(arguments) == 0
    assert "|version:2.6.0, negated, 5.0 s for 1,000 rows" in capsys.readouterr().out


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
    _, headline, *details = capsys.readouterr().out.split("\n\n")
    assert "System" not in headline
    assert "agreement on systems x 100, no interval" in details


def test_details_have_tables_of_their_own(
    collected: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark(collected, checkpoint)
    blocks = capsys.readouterr().out.split("\n\n")
    tied = blocks[blocks.index("segments with ties x 100 (acc23*: best tie threshold), no interval") + 1]
    assert "acc23*, by item" in tied and "by system" not in tied  # the ratings name no system
    ranked = blocks[blocks.index("clusters of metrics, best first (PERM-BOTH)") + 1]
    assert ranked.split()[:5] == ["metric", "Kendall", "τ-b", "Pearson", "r"]
    assert not any(block.startswith("agreement on systems") for block in blocks)
    benchmark(collected, checkpoint, "--format", "json")
    found = json.loads(capsys.readouterr().out)["clusters"]
    metrics = ["sentbleu", "ter", f"bleurt/{checkpoint.name}"]
    for statistic in ("kendall", "pearson"):
        assert sorted(row["metric"] for row in found if row["statistic"] == statistic) == sorted(metrics)
    assert {row["cluster"] for row in found} <= {1, 2, 3}


def test_texts_are_limited_as_collect_limits_them(
    own: Path, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = load_key(params_file(), "collect")["max_words"]
    row = {"reference": "cat " * words, "candidate": "cat " * (words + 1), "score": 50}
    with own.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(row) + "\n")
    assert len(ratings.read_own(own, 100.0)) == 48
    assert "1 rows are left out: a reference or the candidate is too long" in capsys.readouterr().err
    params = tmp_path / "params.yaml"
    params.write_text("collect: {max_words: 1000}\n", encoding="utf-8")
    monkeypatch.setattr(ratings, "params_file", lambda: params)
    assert len(ratings.read_own(own, 100.0)) == 49


def test_character_references_are_undone_once_unless_they_are_kept(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, plain = tmp_path / "escaped.jsonl", tmp_path / "plain.jsonl"
    for place, quote in ((file, "&quot;"), (plain, '"')):
        rows = [{"reference": quote + row["reference"], "candidate": row["candidate"], "score": 5} for row in ROWS]
        place.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    texts = [[row["reference"] for row in ratings.read_own(place, 100.0)] for place in (file, plain)]
    assert texts[0] == texts[1] and texts[0][0].startswith('"')
    kept = ratings.read_own(file, 100.0, CharacterReferences.KEPT)
    assert kept[0]["reference"].startswith("&quot;")
    for given, said in (([], "undone"), (["--character_references", "kept"], "kept")):
        assert benchmark(file, checkpoint, "--scale", "100", "--format", "json", *given) == 0
        signature = json.loads(capsys.readouterr().out)["signatures"][f"bleurt/{checkpoint.name}"]
        assert f"|character_references:{said}|" in signature


def test_bertscores_layer_is_the_best_on_validation_if_there_is_some(
    collected: Path, own: Path, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    encoder = save_tiny_filler(tmp_path / "encoder")
    last = json.loads((encoder / "config.json").read_text(encoding="utf-8"))["num_hidden_layers"]
    options = ["--baselines", "bertscore", "--bertscore_model", str(encoder), "--format", "json"]

    def signature(ratings: Path, *given: str) -> str:
        arguments = ["benchmark", "--ratings", str(ratings), "-c", str(checkpoint), *options, *given]
        assert main([*arguments, "--resamples", "2", "--permutations", "2"]) == 0
        return str(json.loads(capsys.readouterr().out)["signatures"]["bertscore"])

    assert f"layer {last}, " in signature(collected) and f"layer {last}, " in signature(own, "--scale", "100")
    assert "layer 1, " in signature(collected, "--bertscore_layer", "1")
    rows = [{**row, "split": "validation"} if row["split"] == "train" else row for row in ROWS]
    folder = tmp_path / "validated"
    write_shard(folder / shard_name(0), table_of(rows, RATINGS))
    held = [row for row in rows if row["split"] == "validation"]
    best = 1 + int(numpy.nanargmax(layer_kendalls(str(encoder), held, 8192)))
    assert f"layer {best} (best on validation), " in signature(folder)


def test_an_unknown_baseline_is_refused(own: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["benchmark", "--ratings", str(own), "-c", str(checkpoint), "--baselines", "blue"])
    assert ended.value.code == 2
    assert "--baselines: must be one of bertscore, " in capsys.readouterr().err


def test_scores_that_came_with_the_ratings_stand_beside_the_others(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{**row, "published": [("hter", row["score"])]} for row in ROWS]
    write_shard(tmp_path / "collect" / shard_name(0), table_of(rows, RATINGS))
    assert benchmark(tmp_path / "collect", checkpoint, "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    values = {(row["metric"], row["language_pair"], row["statistic"]): row["value"] for row in found["agreement"]}
    assert values["published/hter", "average", "kendall"] == pytest.approx(1.0)
    assert found["signatures"]["published/hter"] == "as published with the ratings"


def test_scores_of_others_may_not_have_the_name_of_scores_that_came_with_the_ratings(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{**row, "system": "a", "segment": str(n), "published": [("ter", 0.5)]} for n, row in enumerate(ROWS)]
    write_shard(tmp_path / "collect" / shard_name(0), table_of(rows, RATINGS))
    file = tmp_path / "ter.seg.score"
    file.write_text("ter\tde-en\ttestset\tref\ta\t0\t0.5\n", encoding="utf-8")
    assert benchmark(tmp_path / "collect", checkpoint, "--published", str(file)) == 2
    assert "scores of this metric were published with the ratings" in capsys.readouterr().err
