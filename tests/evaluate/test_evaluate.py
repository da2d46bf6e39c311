"""The evaluate stage on tiny random models: what it writes, resume, worker counts, bad input, and real numbers."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

from pipeline.core.errors import InputError, ModelError, ParamsError
from pipeline.core.params import from_mapping
from pipeline.core.records import AGREEMENT, CLUSTERS, PREDICTIONS, RATINGS
from pipeline.core.shards import list_shards, read_rows, read_shard, shard_name, table_of, write_shard
from pipeline.evaluate.evaluation import EvaluateParams, evaluate
from pipeline.evaluate.metrics import embeddings, score_pairs, yisi
from pipeline.evaluate.metrics.embeddings import layer_kendalls
from pipeline.evaluate.similarities import Tokens
from pipeline.statistics.correlation import kendall, pearson

WORDS = ["the", "old", "new", "river", "town", "bridge", "was", "built", "near", "closed", "in", "spring"]
SECTION: dict[str, Any] = {
    "baselines": ["sentbleu", "chrf++", "bertscore_idf"],
    "published": [],
    "max_tokens": 24,
    "batch_tokens": 64,
    "resamples": 50,
    "confidence": 0.9,
    "permutations": 20,
    "darr_gap": 25,
    "seed": 1,
}
VARIANTS = ["all", "none"]


def save_checkpoint(folder: Path, seed: int) -> None:
    torch.manual_seed(seed)
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = BertConfig(vocab_size=len(vocabulary), num_labels=1, max_position_embeddings=32, **sizes)
    BertForSequenceClassification(config).save_pretrained(folder)
    BertTokenizer(vocab={token: place for place, token in enumerate(vocabulary)}).save_pretrained(folder)


def rating(number: int, rng: numpy.random.Generator) -> dict[str, Any]:
    reference = list(numpy.random.default_rng(number // 4).choice(WORDS, 6))
    candidate = [word if rng.random() < 0.7 else str(rng.choice(WORDS)) for word in reference]
    quality = sum(z == c for z, c in zip(reference, candidate, strict=True)) / 6
    return {
        "rating_id": f"r{number}",
        "corpus": "own",
        "split": ("test", "test", "train", "validation")[number % 4],
        "aspect": "adequacy",
        "reference": " ".join(reference),
        "other_references": [],
        "candidate": "" if number == 1 else " ".join(candidate),
        "source": None,
        "language_pair": ("de-en", "fr-en")[number // 4 % 2],
        "system": None,
        "segment": f"s{number // 4}",
        "year": None,
        "raw": 100 * quality,
        "z": None,
        "score": quality,
    }


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with two checkpoints and two shards of ratings: 40 of 80 rows are test rows."""
    for number, variant in enumerate(VARIANTS):
        save_checkpoint(tmp_path / "finetune" / variant, number)
    rng = numpy.random.default_rng(0)
    rows = [rating(number, rng) for number in range(80)]
    for shard in range(2):
        part = rows[40 * shard : 40 * shard + 40]
        write_shard(tmp_path / "collect" / shard_name(shard), table_of(part, RATINGS))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BLEURT_WORKERS", "1")
    monkeypatch.setenv("BLEURT_DEVICE", "cpu")
    return tmp_path


def params(**changes: Any) -> EvaluateParams:
    return from_mapping({**SECTION, **changes}, EvaluateParams, "evaluate")


def run(out: str, variants: list[str] = VARIANTS, layer: int | None = 1, **changes: Any) -> Path:
    # Absolute folders, because loaded models are remembered by path for the life of a process.
    model = str(Path.cwd() / "finetune" / "all")
    sections = {"bertscore": embeddings.Params(model, layer)}
    evaluate(params(**changes), sections, variants, Path("collect"), Path.cwd() / "finetune", Path(out))
    return Path(out)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_writes_predictions_agreement_and_comparisons(project: Path) -> None:
    out = run("evaluate")
    test_rows = [row for row in read_rows(Path("collect"), RATINGS) if row["split"] == "test"]
    predictions = list(read_rows(out / "predictions", PREDICTIONS))
    metrics = ["bleurt/all", "bleurt/none", "sentbleu", "chrf++", "bertscore_idf"]
    assert [row["metric"] for row in predictions] == [metric for metric in metrics for _ in range(40)]
    assert [row["rating_id"] for row in predictions] == [row["rating_id"] for row in test_rows] * 5

    bleu = score_pairs("sentbleu", [r["reference"] for r in test_rows], [r["candidate"] for r in test_rows])
    assert [row["score"] for row in predictions if row["metric"] == "sentbleu"] == bleu.tolist()
    german = [i for i, row in enumerate(test_rows) if row["language_pair"] == "de-en"]
    human = numpy.array([test_rows[i]["score"] for i in german])
    agreement = {
        (row["metric"], row["language_pair"], row["statistic"]): row for row in read_rows(out / "agreement", AGREEMENT)
    }
    assert agreement["sentbleu", "de-en", "kendall"]["value"] == pytest.approx(kendall(human, bleu[german]), abs=1e-8)
    assert agreement["sentbleu", "de-en", "pearson"]["value"] == pytest.approx(pearson(human, bleu[german]), abs=1e-8)
    assert agreement["sentbleu", "average", "kendall"]["count"] == 40
    ties = {f"{name}_{averaged}" for name in ("tau23", "acc23_best") for averaged in ("pooled", "item")}
    assert {row["statistic"] for row in agreement.values()} == {"kendall", "pearson", "spearman", "darr", *ties}
    clusters = [row["metric"] for row in read_rows(out / "clusters", CLUSTERS) if row["statistic"] == "kendall"]
    assert sorted(clusters) == sorted(metrics)

    compared = json.loads((out / "significance.json").read_text())
    assert [(record["metric"], record["role"]) for record in compared] == [
        ("bleurt/all", "without pre-training"),
        ("bleurt/all", "best baseline"),
        ("bleurt/none", "best baseline"),
    ]
    counts = json.loads((out / "counts.json").read_text())
    assert counts == {"rows_in": 80, "rows_out": 40, "dropped": {"train split": 20, "validation split": 20}}
    method = json.loads((out / "method.json").read_text())
    assert method["settings"]["resamples"] == 50
    assert (method["left_out"], method["years"]) == ([], {"own": None})
    assert method["signatures"]["bertscore_idf"].endswith(
        "finetune/all, layer 1, IDF over the references of corpus and language pair, not rescaled"
    )


def test_moverscore_of_equal_and_of_void_texts_stands_at_its_ends(project: Path) -> None:
    out = run("evaluate", ["none"], baselines=["moverscore"])
    texts = {row["rating_id"]: row for row in read_rows(Path("collect"), RATINGS)}
    scores = {
        r["rating_id"]: r["score"] for r in read_rows(out / "predictions", PREDICTIONS) if r["metric"] == "moverscore"
    }
    equal = [i for i in scores if texts[i]["candidate"] == texts[i]["reference"]]
    assert scores.pop("r1") == -1.0  # nothing
    assert equal
    assert all(scores[i] == pytest.approx(1.0, abs=1e-6) for i in equal)
    assert all(-1.0 < scores[i] < 1.0 - 1e-3 for i in scores.keys() - set(equal))
    signature = json.loads((out / "method.json").read_text())["signatures"]["moverscore"]
    assert signature.startswith("1 - earth mover's distance, ")
    assert "IDF over the references of corpus and language pair" in signature


def test_scores_that_came_with_the_ratings_are_measured_too(project: Path) -> None:
    for shard in list_shards(Path("collect")):
        rows = [row | {"published": [("ter", row["score"])]} for row in read_shard(shard, RATINGS).to_pylist()]
        write_shard(shard, table_of(rows, RATINGS))
    out = run("evaluate", ["none"], baselines=["sentbleu"])
    agreement = {(r["metric"], r["statistic"]): r for r in read_rows(out / "agreement", AGREEMENT)}
    assert agreement["published/ter", "kendall"]["value"] == pytest.approx(1.0)
    (best,) = [r for r in json.loads((out / "significance.json").read_text()) if r["role"] == "best baseline"]
    assert best["against"] == "published/ter"
    signatures = json.loads((out / "method.json").read_text())["signatures"]
    assert signatures["published/ter"] == "as published with the ratings"
    assert {row["metric"] for row in read_rows(out / "predictions", PREDICTIONS)} == {"bleurt/none", "sentbleu"}


def test_bertscore_takes_the_layer_that_is_best_on_validation(project: Path) -> None:
    rows = [row for row in read_rows(Path("collect"), RATINGS) if row["split"] == "validation"]
    taus = layer_kendalls(str(project / "finetune" / "all"), rows, 64)
    best = max(range(len(taus)), key=taus.__getitem__) + 1
    out = run("evaluate", baselines=["bertscore"], layer=None)
    chosen = run("chosen", baselines=["bertscore"], layer=best)
    assert contents(out / "predictions") == contents(chosen / "predictions")
    text = json.loads((out / "method.json").read_text())["signatures"]["bertscore"]
    assert f"layer {best} (best on validation)" in text


def test_a_layer_cannot_be_chosen_without_validation(project: Path) -> None:
    for shard in list_shards(Path("collect")):
        rows = [row for row in read_shard(shard, RATINGS).to_pylist() if row["split"] != "validation"]
        write_shard(shard, table_of(rows, RATINGS))
    with pytest.raises(ParamsError, match=r"^evaluate\.bertscore\.layer: is null, but there are no validation ratings"):
        run("evaluate", baselines=["bertscore"], layer=None)


def test_a_metric_that_cannot_score_is_left_out_with_its_reason_and_nothing_else_stops(project: Path) -> None:
    states = yisi.OneLanguage("./nowhere", 1, None, 0.8, 0.7, 3, Tokens.MT13A)
    vectors = yisi.TwoLanguages("./nowhere", None, "no.vec", "no.vec", 0.8, 3, Tokens.MT13A)
    sections = {"yisi1": states, "yisi2": vectors}
    folders = Path("collect"), Path.cwd() / "finetune", Path("out")
    evaluate(params(baselines=["yisi1", "sentbleu", "yisi2", "rougeL"]), sections, ["none"], *folders)
    predictions = {row["metric"] for row in read_rows(Path("out/predictions"), PREDICTIONS)}
    assert predictions == {"bleurt/none", "sentbleu", "rougeL"}
    method = json.loads(Path("out/method.json").read_text())
    assert method["not_scored"] == [
        {"metric": "yisi1", "reason": "./nowhere: no such model folder.", "rows": 40},
        {"metric": "yisi2", "reason": "no.vec: no such file of word vectors.", "rows": 40},
    ]
    assert set(method["signatures"]) == predictions


def test_a_metric_without_sources_is_left_out_with_its_reason(project: Path) -> None:
    files = yisi.TwoLanguages("none", None, "vectors", "vectors", 0.8, 3, Tokens.BLANKS)
    Path("vectors").write_text("1 1\nthe 1\n")
    folders = Path("collect"), Path.cwd() / "finetune", Path("out")
    evaluate(params(baselines=["sentbleu", "yisi2"]), {"yisi2": files}, ["none"], *folders)
    (record,) = json.loads(Path("out/method.json").read_text())["not_scored"]
    assert record == {"metric": "yisi2", "reason": "a row has no source, which the metric reads", "rows": 40}


def test_a_language_pair_on_which_people_say_nothing_is_told_and_not_averaged(project: Path) -> None:
    for shard in list_shards(Path("collect")):
        rows = [
            {**row, "score": 0.5 if row["language_pair"] == "fr-en" else row["score"]}
            for row in read_shard(shard, RATINGS).to_pylist()
        ]
        write_shard(shard, table_of(rows, RATINGS))
    out = run("evaluate", baselines=["sentbleu"])
    reason = "all human ratings are equal"
    assert json.loads((out / "method.json").read_text())["left_out"] == [
        {"corpus": "own", "aspect": "adequacy", "language_pair": "fr-en", "reason": reason}
    ]
    values = {(r["metric"], r["language_pair"], r["statistic"]): r for r in read_rows(out / "agreement", AGREEMENT)}
    for metric in ("bleurt/all", "bleurt/none", "sentbleu"):
        average, german = (values[metric, pair, "kendall"] for pair in ("average", "de-en"))
        assert (average["value"], average["count"]) == (german["value"], 20)


def test_a_run_that_failed_continues_and_ends_with_the_same_bytes(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = Path("finetune/none/model.safetensors").rename("kept")
    with pytest.raises(ModelError, match=r"none: holds no \*\.safetensors file"):
        run("evaluate", baselines=["sentbleu"])
    assert not Path("evaluate").exists() or not list(Path("evaluate").iterdir())
    weights.rename("finetune/none/model.safetensors")
    capsys.readouterr()
    continued = run("evaluate", baselines=["sentbleu"])
    assert "of 3 shards were finished by an earlier run" in capsys.readouterr().out
    shutil.rmtree(".work")
    monkeypatch.setenv("BLEURT_WORKERS", "2")
    assert contents(continued) == contents(run("again", baselines=["sentbleu"]))


def test_a_missing_checkpoint_is_named_before_any_work(project: Path) -> None:
    with pytest.raises(InputError, match=r"finetune: no trained metric no_bleu in this folder \(run finetune for it\)"):
        run("evaluate", ["all", "no_bleu"])
    assert not Path(".work").exists()


def test_pairs_longer_than_the_checkpoint_takes_are_refused_before_any_work(project: Path) -> None:
    with pytest.raises(ParamsError, match=r"evaluate\.max_tokens: must lie between 5 and 32 for this model, not 33\."):
        run("evaluate", max_tokens=33)
    assert not Path(".work").exists()


def test_ratings_without_a_test_row_are_refused(project: Path) -> None:
    for shard in list_shards(Path("collect")):
        rows = [{**row, "split": "train"} for row in read_rows(Path("collect"), RATINGS)]
        write_shard(shard, table_of(rows, RATINGS))
    with pytest.raises(InputError, match="collect: no row has the split test"):
        run("evaluate")


def test_a_damaged_rating_shard_is_refused(project: Path) -> None:
    shard = Path("collect") / shard_name(1)
    shard.write_bytes(shard.read_bytes()[:200])
    with pytest.raises(InputError, match=r"part-00001.parquet: not a whole Parquet file"):
        run("evaluate")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"baselines": ["blue"]}, r"evaluate.baselines\[0\]: must be one of bertscore, .*sentbleu, chrf\+\+"),
        ({"baselines": ["ter", "ter"]}, "evaluate.baselines: names ter twice"),
        ({"confidence": 95}, "evaluate.confidence: must be below 1, not 95"),
        ({"resamples": 0}, "evaluate.resamples: must be at least 1, not 0"),
    ],
)
def test_bad_params_name_their_key(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ParamsError, match=message):
        params(**changes)


def test_params_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        params().seed = 2  # type: ignore[misc]


def test_sentence_bleu_on_wmt17_has_the_known_agreement(real_data: Path) -> None:
    """31.8 / 47.2 by a plain sacrebleu run, the mean of seven pairs (see the project's first measurements)."""
    folder = real_data / "wmt" / "wmt17"
    human: dict[str, list[float]] = {}
    texts: dict[str, list[tuple[str, str]]] = {}
    for line in (folder / "DA-seglevel.csv").read_text(encoding="utf-8").splitlines()[1:]:
        pair, data, system, segment, score = line.split()
        if pair.endswith("-en"):
            name = f"{data}-{pair.replace('-', '')}-ref.en"
            (output,) = (folder / "system-outputs" / pair).glob(f"{data}.{system.split('+')[0]}.{pair}*")
            files = (folder / "references" / name, output)
            reference, candidate = (_lines(file)[int(segment) - 1] for file in files)
            human.setdefault(pair, []).append(float(score))
            texts.setdefault(pair, []).append((reference, candidate))
    values = []
    for pair, scores in human.items():
        metric = score_pairs("sentbleu", *map(list, zip(*texts[pair], strict=True)))
        values.append((kendall(numpy.array(scores), metric), pearson(numpy.array(scores), metric)))
    assert len(values) == 7 and {len(scores) for scores in human.values()} == {560}
    assert 100 * numpy.mean(values, axis=0) == pytest.approx([31.8, 47.2], abs=0.05)


_READ: dict[Path, list[str]] = {}


def _lines(file: Path) -> list[str]:
    if file not in _READ:
        _READ[file] = file.read_text(encoding="utf-8").split("\n")
    return _READ[file]
