"""Fine-tuning under other heads and without references: what learns, what stays, what the checkpoint says."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from safetensors.torch import load_file
from tiny_filler import save_tiny_filler
from tiny_mpnet import save_tiny_mpnet
from tiny_predictor import save_tiny_predictor

from pipeline.core.errors import InputError, ModelError, ParamsError
from pipeline.core.models import load_config
from pipeline.core.params import from_mapping
from pipeline.core.records import RATINGS
from pipeline.core.shards import shard_name, table_of, write_shard
from pipeline.evaluate.predictions import SOURCELESS, score_rows, trained
from pipeline.finetune.finetuning import finetune
from pipeline.finetune.heads import Encoder, EsimParams, EstimatorParams, RegressorParams, System
from pipeline.finetune.lessons import FinetuneParams, read_rated
from pipeline.metric.beside import Reads
from pipeline.metric.regressor import Inputs, Vectors
from pipeline.scoring.scorer import BleurtScorer
from pipeline.training.schedule import Schedule

SCHEDULE = Schedule(
    steps=30, learning_rate=0.01, layer_decay=1.0, weight_decay=0.0, warmup_share=0.1, clip_norm=1.0,
    evaluate_every=10, save_every=30, seed=1,
)  # fmt: skip
REGRESSOR = RegressorParams(
    encoders=(), inputs=Inputs.APART, vectors=Vectors.MEAN, layers=(1,), widths=(8,), dropouts=(0.0,), batches=(4,)
)
PARAMS = FinetuneParams(
    reads=Reads.REFERENCE, encoder=Encoder.TUNED, head=System.KEPT, regressor=REGRESSOR, esim=EsimParams(width=4),
    estimator=EstimatorParams(width=4),
    aspects=("adequacy",), language_pairs=("*",), without_language_pairs=(),
    ratings=None, shares={}, own_scale=(), adapter=None, validation_pairs=None, members=1,
    start=None, probe=None, max_tokens=24, batch_pairs=4, dropout=0.0, batch_tokens=256, schedule=SCHEDULE,
)  # fmt: skip
FROZEN = dataclasses.replace(PARAMS, encoder=Encoder.FROZEN)
TEXTS = ["the cat", "a dog", "the red house", "paris", "a bird sat", "the mat"]


def rating(place: int, **changes: Any) -> dict[str, Any]:
    """Candidates that equal their reference are good, the others bad."""
    text, same = TEXTS[place % 6], place % 2 == 0
    row = dict.fromkeys(RATINGS.names) | {"corpus": "own", "aspect": "adequacy", "other_references": []}
    row |= {"rating_id": f"own/{place}", "split": ("train", "train", "validation")[place % 3]}
    row |= {"reference": text, "source": f"{text} 1", "candidate": text if same else TEXTS[(place + 2) % 6]}
    return {**row, "score": float(same), **changes}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BLEURT_DEVICE", "cpu")
    write_shard(tmp_path / "ratings" / shard_name(0), table_of([rating(place) for place in range(36)], RATINGS))
    save_tiny_filler(tmp_path / "encoder")
    save_tiny_mpnet(tmp_path / "mpnet")
    return tmp_path


def tuned(params: FinetuneParams, folder: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Weights of the checkpoint OUT/out, and its training.json."""
    finetune(params, folder / "encoder", folder / "ratings", folder / "none", folder / "out")
    weights: dict[str, torch.Tensor] = load_file(folder / "out" / "model.safetensors")
    return weights, json.loads((folder / "out" / "training.json").read_text())


def test_ruse_learns_from_two_encoders_that_stay_and_keeps_the_best_shape(project: Path) -> None:
    several = dataclasses.replace(REGRESSOR, encoders=(f"{project / 'mpnet'}",), layers=(1, 2), dropouts=(0.0, 0.5))
    weights, training = tuned(dataclasses.replace(FROZEN, head=System.REGRESSOR, regressor=several), project)
    assert [(one["layers"], one["dropout"]) for one in training["shapes"]] == [(1, 0.0), (1, 0.5), (2, 0.0), (2, 0.5)]
    best = max(training["shapes"], key=lambda one: one["validation"])
    assert training["best_validation"] == best["validation"] > 0.5
    config = load_config(project / "out")
    assert (config.layers, config.features) == (best["layers"], 4 * (16 + 16))
    before = load_file(project / "mpnet" / "model.safetensors")
    after = {name.removeprefix("encoders.1."): w for name, w in weights.items() if name.startswith("encoders.1.")}
    assert after and all(torch.equal(before[name], weight) for name, weight in after.items())
    scorer = BleurtScorer(project / "out", device="cpu")
    good, bad = scorer.score(["the cat", "the cat"], ["the cat", "paris"])
    assert good > bad
    held = [rating(place) for place in range(36) if place % 3 == 2]
    scores = scorer.score([row["reference"] for row in held], [row["candidate"] for row in held])
    human = numpy.array([row["score"] for row in held])
    assert numpy.mean(numpy.array(scores)[human == 1]) > numpy.mean(numpy.array(scores)[human == 0])


@pytest.mark.parametrize("head", [System.KEPT, System.ESIM])
def test_a_frozen_encoder_stays_and_the_rest_learns(head: System, project: Path) -> None:
    few = dataclasses.replace(SCHEDULE, steps=4, evaluate_every=2)
    weights, _ = tuned(dataclasses.replace(FROZEN, head=head, schedule=few), project)
    before = load_file(project / "encoder" / "model.safetensors")
    prefix = "bert." if head is System.KEPT else "encoders.0."
    same = {name for name, weight in weights.items() if name.startswith(prefix) and "pooler" not in name}
    assert same and all(torch.equal(before["bert." + name.removeprefix(prefix)], weights[name]) for name in same)
    tuned_weights, _ = tuned(dataclasses.replace(PARAMS, head=head, schedule=few), project)
    assert any(not torch.equal(weights[name], tuned_weights[name]) for name in same)


def test_the_bert_regressor_reads_pairs(project: Path) -> None:
    pair = dataclasses.replace(REGRESSOR, inputs=Inputs.PAIR, vectors=Vectors.CLS4)
    for params in (FROZEN, PARAMS):
        tuned(dataclasses.replace(params, head=System.REGRESSOR, regressor=pair), project)
        assert load_config(project / "out").features == 2 * 16  # two layers, side by side
        assert len(BleurtScorer(project / "out", device="cpu").score(["a dog"], ["a cat"])) == 1


def test_a_metric_without_references_needs_sources_and_says_so(project: Path) -> None:
    rows = [rating(place, source=None if place < 3 else f"{place}") for place in range(36)]
    write_shard(project / "ratings" / shard_name(0), table_of(rows, RATINGS))
    few = dataclasses.replace(SCHEDULE, steps=2, evaluate_every=2)
    tuned(dataclasses.replace(PARAMS, reads=Reads.SOURCE, schedule=few), project)
    counts = json.loads((project / "out" / "counts.json").read_text())
    assert counts["dropped"] == {"train rating without a source": 2, "validation rating without a source": 1}
    scorer = BleurtScorer(project / "out", device="cpu")
    assert "|reads:source" in str(scorer.signature())
    one = scorer.score(candidates=["a dog"], sources=["ein hund"])
    assert scorer.score(["anything"], ["a dog"], sources=["ein hund"]) == one
    assert scorer.score(None, ["a dog"], sources=["x"]) != one
    assert scorer.score_detailed(candidates=["a dog", "", "a"], sources=["a dog", "x", ""])[0].edge == "source_copy"
    with pytest.raises(InputError, match="has no source, but the checkpoint reads one"):
        scorer.score(["a cat"], ["a dog"])
    metric = trained("bleurt/qe", project / "out", max_tokens=24)
    found = score_rows(metric, None, rows[3:5], 64)
    assert found.values.tolist() == pytest.approx(
        scorer.score(candidates=[row["candidate"] for row in rows[3:5]], sources=["3", "4"]), abs=1e-5
    )
    assert score_rows(metric, None, rows[:2], 64).left_out == {SOURCELESS: 2}
    assert "reads the source instead of a reference" in metric.signature(None)


def test_reference_and_source_are_read_together(project: Path) -> None:
    few = dataclasses.replace(SCHEDULE, steps=2, evaluate_every=2)
    tuned(dataclasses.replace(PARAMS, reads=Reads.BOTH, schedule=few), project)
    scorer = BleurtScorer(project / "out", device="cpu")
    texts = [["the cat"], ["a dog"]]
    scores = {scorer.score(*texts, sources=[source])[0] for source in ("ein hund", "paris")}
    scores.add(scorer.score(["paris"], ["a dog"], sources=["paris"])[0])
    assert len(scores) == 3, "either text moves the score"
    with pytest.raises(ParamsError, match=r"^long: must be cut for a checkpoint that reads reference and source"):
        BleurtScorer(project / "out", device="cpu", long="windows")


def test_predictor_estimator_learns_over_a_predictor_that_stays(project: Path) -> None:
    """Candidates that begin with "the" are good; the source says nothing, and a predictor of random weights little."""
    save_tiny_predictor(project / "encoder")
    splits = ("train", "train", "validation")
    rows = [rating(place, candidate=TEXTS[place % 6], split=splits[place // 6 % 3]) for place in range(36)]
    rows = [row | {"score": float(row["candidate"].startswith("the"))} for row in rows]
    write_shard(project / "ratings" / shard_name(0), table_of(rows, RATINGS))
    head = {"head": System.ESTIMATOR, "reads": Reads.SOURCE}
    longer = dataclasses.replace(SCHEDULE, steps=80, learning_rate=0.03, evaluate_every=80)
    weights, training = tuned(dataclasses.replace(FROZEN, **head, schedule=longer), project)
    before = load_file(project / "encoder" / "model.safetensors")
    assert before and all(torch.equal(weight, weights[f"predictor.{name}"]) for name, weight in before.items())
    assert training["best_validation"] > 0.5
    config = load_config(project / "out")
    assert (config.model_type, config.reads, config.estimator_width) == ("bleurt-predictor", "source", 4)
    scorer = BleurtScorer(project / "out", device="cpu")
    good, bad = scorer.score(candidates=["the cat", "paris"], sources=["the cat 1", "paris 1"])
    assert good > bad + 0.2
    assert "|reads:source" in str(scorer.signature())
    few = dataclasses.replace(SCHEDULE, steps=2, evaluate_every=2)
    learned, _ = tuned(dataclasses.replace(PARAMS, **head, schedule=few), project)
    assert not torch.equal(before["source.weight_ih_l0"], learned["predictor.source.weight_ih_l0"])


@pytest.mark.parametrize(
    ("start", "head"), [("bert", System.ESTIMATOR), ("predictor", System.ESIM), ("predictor", System.REGRESSOR)]
)
def test_a_head_that_does_not_fit_the_start_is_refused(start: str, head: System, project: Path) -> None:
    if start == "predictor":
        save_tiny_predictor(project / "encoder")
    sentence = rf"/encoder: is of the type (bleurt-predictor|bert); finetune\.head must be .*, not {head}\.$"
    with pytest.raises(ModelError, match=sentence):
        tuned(dataclasses.replace(PARAMS, head=head, reads=Reads.SOURCE), project)


def test_training_without_a_language_pair_leaves_its_rows_out_and_counts_them(project: Path) -> None:
    pairs = ("de-en", "en-zh", "en-de")
    rows = [rating(place, language_pair=pairs[place // 3 % 3]) for place in range(36)]
    write_shard(project / "ratings" / shard_name(0), table_of(rows, RATINGS))
    named = {"pairs": ["en-*", "zh-*"], "without": ["*-zh"]}
    rated = read_rated(project / "ratings", "train", ["adequacy"], **named)  # type: ignore[arg-type]
    assert len(rated.candidates) == 8 and rated.dropped == {"train rating of another language pair": 16}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"adapter": 4, "encoder": "frozen"}, r"finetune\.adapter: must be null with a frozen encoder, not 4"),
        ({"start": "bleu", "head": "esim"}, r"finetune\.start: must be null with head esim, not bleu"),
        ({"reads": "both", "head": "esim"}, r"finetune\.reads: must be reference or source where texts are read apart"),
        ({"head": "estimator"}, r"finetune\.reads: must be source with head estimator, not reference"),
        ({"shares": {"graded": 0.1}, "reads": "source"}, r"finetune\.shares: must not name graded with reads source"),
        ({"head": "regressor", "encoder": "frozen", "members": 2}, r"finetune\.members: must be 1 with a grid"),
        ({"head": "regressor", "layers": [1, 2]}, r"finetune\.regressor: must name one shape if the encoder is tuned"),
        ({"inputs": "pair"}, r"finetune\.regressor\.vectors: must be cls or cls4 with inputs pair, not mean"),
        (
            {"inputs": "pair", "encoders": ["x"]},
            r"finetune\.regressor\.encoders: must be empty, one encoder",
        ),
    ],
)
def test_keys_that_do_not_go_together_are_refused(changes: dict[str, Any], message: str) -> None:
    values = json.loads(json.dumps(dataclasses.asdict(PARAMS)))
    for key, value in changes.items():
        section = values["regressor"] if key in values["regressor"] else values
        section[key] = value
    with pytest.raises(ParamsError, match=f"^{message}"):
        from_mapping(values, FinetuneParams, "finetune")
