"""Ratings as they are read for training: nothing collapses, every row is counted; tau where it is defined."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from safetensors.torch import load_file
from tiny_filler import save_tiny_filler

from pipeline.core.errors import InputError, ParamsError
from pipeline.core.models import load_tokenizer
from pipeline.core.params import from_mapping
from pipeline.core.records import GRADED, RATINGS
from pipeline.core.shards import shard_name, table_of, write_shard
from pipeline.finetune.finetuning import (
    average,
    finetune,
    limited,
    mean_kendall,
    member_seed,
    probe,
    validation_kendall,
)
from pipeline.finetune.heads import Encoder, EsimParams, EstimatorParams, RegressorParams, System
from pipeline.finetune.learner import Learner
from pipeline.finetune.lessons import FinetuneParams, RatedPairs, lessons_of, read_rated
from pipeline.metric.beside import Reads
from pipeline.metric.checkpoint import Head, head_of, new_metric
from pipeline.metric.pairs import encode_pairs
from pipeline.metric.prediction import outputs
from pipeline.metric.regressor import Inputs, Vectors
from pipeline.training.schedule import Schedule

SCHEDULE = Schedule(
    steps=2, learning_rate=0.01, layer_decay=1.0, weight_decay=0.0, warmup_share=0.1, clip_norm=1.0, evaluate_every=1,
    save_every=1, seed=1,
)  # fmt: skip
PARAMS = FinetuneParams(
    reads=Reads.REFERENCE,
    encoder=Encoder.TUNED,
    head=System.KEPT,
    regressor=RegressorParams(
        encoders=(), inputs=Inputs.APART, vectors=Vectors.MEAN, layers=(1,), widths=(4,), dropouts=(0.0,), batches=(2,)
    ),
    esim=EsimParams(width=4),
    estimator=EstimatorParams(width=4),
    aspects=("adequacy",),
    language_pairs=("*",),
    without_language_pairs=(),
    ratings=None,
    shares={},
    own_scale=(),
    adapter=None,
    validation_pairs=None,
    members=1,
    start=None,
    probe=None,
    max_tokens=16,
    batch_pairs=2,
    dropout=0.0,
    batch_tokens=64,
    schedule=SCHEDULE,
)


def rating(rating_id: str, split: str, aspect: str, candidate: str, score: float) -> dict[str, Any]:
    row = dict.fromkeys(RATINGS.names)
    named = {"rating_id": rating_id, "corpus": "own", "split": split, "aspect": aspect, "score": score}
    return {**row, **named, "reference": "the cat", "other_references": [], "candidate": candidate}


def write(folder: Path, rows: list[dict[str, Any]]) -> Path:
    write_shard(folder / shard_name(0), table_of(rows, RATINGS))
    return folder


def test_a_pair_rated_twice_stays_two_pairs_and_aspects_of_one_rating_meet(tmp_path: Path) -> None:
    rows = [
        rating("wmt/1/sysA", "train", "adequacy", "a cat", 0.1),
        rating("wmt/1/sysB", "train", "adequacy", "a cat", 0.9),
        rating("webnlg/7/fluency", "train", "fluency", "a dog", 0.3),
        rating("webnlg/7/adequacy", "train", "adequacy", "a dog", 0.4),
        rating("webnlg/7/grammar", "train", "grammar", "a dog", 0.5),
        rating("webnlg/8/grammar", "validation", "grammar", "a dog", 0.5),
    ]
    rated = read_rated(write(tmp_path, rows), "train", ["adequacy", "fluency"])
    assert rated.candidates == ["a cat", "a cat", "a dog"]
    numpy.testing.assert_allclose(rated.ratings, [[0.1, math.nan], [0.9, math.nan], [0.4, 0.3]])
    assert (rated.rows, rated.dropped) == (5, {"train rating of grammar": 1})


def test_tau_is_the_mean_of_the_aspects_that_have_one() -> None:
    nan = math.nan
    human = numpy.array([[1.0, 0.5, nan], [2.0, 0.5, nan], [3.0, nan, nan]])
    metric = numpy.array([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0], [0.0, 3.0, 3.0]])
    assert mean_kendall(human, metric) == pytest.approx(-1 / 3)  # 1 pair concordant, 2 discordant; others undefined
    assert math.isnan(mean_kendall(human[:, 1:], metric[:, 1:]))


def project(folder: Path, held: tuple[float, float]) -> tuple[Path, Path]:
    rows = [rating(f"t{i}", "train", "adequacy", "a cat", float(i)) for i in range(4)]
    rows += [rating(f"v{i}", "validation", "adequacy", f"a {word}", held[i]) for i, word in enumerate(("cat", "dog"))]
    rows += [rating("x", "train", "fluency", "a", 1.0), rating("y", "test", "adequacy", "a", 1.0)]
    return save_tiny_filler(folder / "encoder"), write(folder / "ratings", rows)


def test_finetune_counts_every_row_beside_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BLEURT_DEVICE", "cpu")
    finetune(PARAMS, *project(tmp_path, (0.0, 1.0)), tmp_path / "none", tmp_path / "out")
    counts = json.loads((tmp_path / "out" / "counts.json").read_text())
    assert counts == {"rows_in": 7, "rows_out": 6, "dropped": {"train rating of fluency": 1}}
    assert (tmp_path / "out" / "model.safetensors").exists()


def test_fewer_ratings_are_drawn_nested_and_counted(tmp_path: Path) -> None:
    rows = [rating(f"wmt/{i}", "train", "adequacy", f"cat {i}", i / 10) for i in range(10)]
    folder = write(tmp_path, rows)
    few, more = (read_rated(folder, "train", ["adequacy"], limit, seed=1) for limit in (3, 6))
    assert (len(few.candidates), len(more.candidates)) == (3, 6)
    assert set(few.candidates) < set(more.candidates)
    assert (few.rows, few.dropped) == (10, {"train rating not drawn": 7})
    assert [f"cat {round(10 * score)}" for score in few.ratings[:, 0]] == few.candidates
    assert read_rated(folder, "train", ["adequacy"], 10, seed=1).dropped == {}


def test_seeds_share_no_member() -> None:
    seeds = [member_seed(seed, number) for seed in range(1, 6) for number in range(3)]
    assert len(set(seeds)) == 15 and member_seed(4, 0) == 4


def test_members_are_averaged_weight_by_weight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scores = [0.1, 0.9, 0.5, 0.3, 0.7, 0.2]
    rows = [
        rating(f"wmt/{i}", "train" if i < 4 else "validation", "adequacy", f"cat {i}", s) for i, s in enumerate(scores)
    ]
    folder, start = write(tmp_path / "ratings", rows), save_tiny_filler(tmp_path / "encoder")
    one = dataclasses.replace(PARAMS, schedule=dataclasses.replace(SCHEDULE, evaluate_every=2))
    for name, members, seed in (("a", 1, 1), ("b", 1, 2), ("both", 2, 1)):
        schedule = dataclasses.replace(one.schedule, seed=seed)
        changed = dataclasses.replace(one, members=members, schedule=schedule)
        finetune(changed, start, folder, tmp_path / "none", tmp_path / name)
    a, both = (load_file(tmp_path / name / "model.safetensors") for name in ("a", "both"))
    assert any(not torch.equal(a[name], both[name]) for name in a)
    training = json.loads((tmp_path / "both" / "training.json").read_text())
    assert len(training["members"]) == 2
    weights = [
        {"w": torch.tensor([1.0, 2.0]), "n": torch.tensor(3)},
        {"w": torch.tensor([3.0, 6.0]), "n": torch.tensor(3)},
    ]
    assert {name: value.tolist() for name, value in average(weights).items()} == {"w": [2.0, 4.0], "n": 3}


@pytest.mark.parametrize("head", list(Head))
def test_a_probe_is_the_ridge_regression_on_what_the_last_layer_reads(tmp_path: Path, head: Head) -> None:
    folder = save_tiny_filler(tmp_path / "encoder")
    model = new_metric(str(folder), head, ["adequacy", "fluency", "unrated"], 0.0, 1)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    candidates = ["a cat", "the cat sat on the mat", "a dog ran", "the house", "small red bird", "paris"]
    pairs = encode_pairs(load_tokenizer(folder), ["the cat sat"] * 6, candidates, 32)
    nan = math.nan
    ratings = numpy.array([[0.1, nan], [0.9, 0.2], [0.3, 0.8], [0.5, nan], [0.2, 0.4], [0.7, nan]])
    ratings = numpy.column_stack([ratings, numpy.full(6, nan)]).astype(numpy.float32)
    probe(model, pairs, ratings, 1e-6, batch_tokens=20)
    found = outputs(model, pairs, 64)
    known = ~numpy.isnan(ratings)
    numpy.testing.assert_allclose(found[known], ratings[known], atol=2e-3)  # more features than pairs: all is met
    changed = {name for name, weight in model.state_dict().items() if not torch.equal(before[name], weight)}
    assert changed == {"classifier.weight", "classifier.bias"}
    assert torch.equal(head_of(model).weight[2], before["classifier.weight"][2]), "an aspect without ratings stays"
    probe(model, pairs, ratings, 1e9, batch_tokens=64)
    numpy.testing.assert_allclose(outputs(model, pairs, 64)[:, 0], ratings[:, 0].mean(), atol=1e-4)


def graded_in(folder: Path, count: int) -> Path:
    same = {"reference": "the dog", "kind": "half"}
    rows = [{**same, "pair_id": f"{i}", "candidate": "a " * i, "grade": float(i)} for i in range(count)]
    write_shard(folder / shard_name(0), table_of(rows, GRADED))
    return folder


def test_graded_candidates_have_their_share_of_a_run_and_stand_on_the_scale_of_the_ratings(tmp_path: Path) -> None:
    rows = [rating(f"t{i}", "train", "adequacy", "a cat " * i, i / 10) for i in range(6)]
    rated = read_rated(write(tmp_path / "ratings", rows), "train", ["adequacy"])
    graded = graded_in(tmp_path / "graded", 50)
    long = dataclasses.replace(PARAMS, schedule=dataclasses.replace(SCHEDULE, steps=16))
    params = dataclasses.replace(long, shares={"graded": 0.25})  # 32 rows: 24 rated ones, 8 graded ones
    lessons = lessons_of(rated, graded, params)
    assert len(lessons.targets) == 6 + 8 and lessons.references[:6] == rated.references and lessons.graded == 8
    steps = [len(text.split()) for text in lessons.candidates[6:]]
    deviation = numpy.std([0.0, 0.1, 0.2, 0.3, 0.4, 0.5])
    numpy.testing.assert_allclose(lessons.targets[6:, 0], 0.25 + deviation * numpy.array(steps), rtol=1e-5)
    assert len(set(steps)) == 8 and steps != sorted(steps)
    assert sorted(lessons.slots.tolist()) == sorted([*range(6)] * 4 + list(range(6, 14)))
    few = lessons_of(rated, graded_in(tmp_path / "few", 4), params)
    assert sorted(few.slots.tolist()) == sorted([*range(6)] * 4 + [6, 7, 8, 9] * 2), "the graded ones are repeated"
    none = lessons_of(rated, tmp_path / "absent", PARAMS)
    assert none.slots.tolist() == list(range(6)) and none.targets is rated.ratings
    write_shard(tmp_path / "empty" / shard_name(0), table_of([], GRADED))
    with pytest.raises(InputError, match="empty: holds no graded candidate"):
        lessons_of(rated, tmp_path / "empty", params)


def of_corpora(*corpora: str) -> RatedPairs:
    texts = [f"text {i}" for i in range(len(corpora))]
    ratings = numpy.arange(len(corpora), dtype=numpy.float32)[:, None]
    return RatedPairs(texts, texts, ratings, list(corpora), [""] * len(corpora), 0, {})


def test_a_share_of_a_corpus_is_met_in_whole_passes_over_its_rows(tmp_path: Path) -> None:
    rated = of_corpora("wmt", "wmt", "mlqe", "mlqe", "mlqe", "mlqe", "mlqe")
    long = dataclasses.replace(PARAMS, schedule=dataclasses.replace(SCHEDULE, steps=5))  # ten rows
    slots = lessons_of(rated, tmp_path, dataclasses.replace(long, shares={"mlqe": 0.4})).slots.tolist()
    assert len(slots) == 10 and [slots.count(row) for row in (0, 1)] == [3, 3]
    assert sum(row >= 2 for row in slots) == 4 == len({row for row in slots if row >= 2}), "no row twice in a pass"
    with pytest.raises(ParamsError, match=r"finetune\.shares: there is no training rating of webnlg"):
        lessons_of(rated, tmp_path, dataclasses.replace(long, shares={"webnlg": 0.4}))
    with pytest.raises(ParamsError, match="no training rating of the other corpora"):
        lessons_of(rated, tmp_path, dataclasses.replace(long, shares={"wmt": 0.4, "mlqe": 0.4}))


def learner_of(outputs: list[float], targets: list[float], *own: str) -> Learner:
    metric = torch.nn.Module()
    metric.config = None  # type: ignore[assignment]
    metric.forward = lambda **_: type("Out", (), {"logits": torch.tensor(outputs)[:, None]})  # type: ignore[method-assign, assignment]
    return Learner(metric, own, ["wmt", "mlqe", "wmt", "mlqe"], torch.tensor(targets)[:, None])


def test_without_a_scale_of_its_own_the_loss_is_the_squared_error() -> None:
    assert float(learner_of([0.5, 1.0], [0.0, 1.0, 0.0, 3.0])(numpy.array([0, 3]))) == pytest.approx((0.25 + 4.0) / 2)


def test_a_corpus_with_a_scale_of_its_own_learns_its_offset_factor_and_noise() -> None:
    learner = learner_of([0.5, 1.0], [0.5, 2.0, 2.5, 4.0], "mlqe")  # variances 2 in either corpus
    assert learner(numpy.array([0, 1])).item() == pytest.approx((0.0 + 1.0) / 2), "half of it is expected as error"
    with torch.no_grad():
        for name, value in (("offset", 0.25), ("factor", math.log(2.0)), ("variance", math.log(3.0))):
            learner.learned[name].fill_(value / Learner.QUICK)
    facts = learner.facts()
    assert facts["mlqe"] == pytest.approx({"offset": 0.25, "factor": 2.0, "variance": 3.0})
    assert facts["others"] == pytest.approx({"offset": 0.0, "factor": 1.0, "variance": 3.0})
    # WMT: (0.5 - 0.5)^2; MLQE: (0.25 + 2 * 1 - 2)^2; each over 3, and ln 3 beside
    assert learner(numpy.array([0, 1])).item() == pytest.approx((0.0 + 0.0625) / 2 / 3 + math.log(3.0), rel=1e-5)


def test_validation_counts_each_scale_of_its_own_apart_and_may_be_drawn() -> None:
    metric = numpy.array([[1.0], [2.0], [9.0], [8.0]])
    assert validation_kendall(of_corpora("wmt15", "wmt16", "mlqe", "mlqe"), ["mlqe"], metric) == 0.0  # WMT 1, MLQE -1
    rated = of_corpora("wmt15", "wmt15", "wmt16", "mlqe", "mlqe", "mlqe")
    params = dataclasses.replace(PARAMS, own_scale=("mlqe",), validation_pairs=2)
    held = limited(rated, params)
    assert [corpus.rstrip("0123456789") for corpus in held.corpora] == ["wmt", "wmt", "mlqe", "mlqe"]
    assert held.dropped == {"validation pair not drawn": 2}
    assert held.references == [f"text {int(row)}" for row in held.ratings[:, 0]]


def test_validation_does_not_reward_telling_languages_apart() -> None:
    """Three rows of one language pair, two of another, which people rate higher."""
    held = dataclasses.replace(of_corpora(*["wmt"] * 5), language_pairs=["cs-en"] * 3 + ["de-en"] * 2)
    knows_the_language = numpy.array([[2.0], [1.0], [0.0], [9.0], [8.0]])  # and has the order wrong in each
    assert validation_kendall(held, [], knows_the_language) == -1.0
    half = numpy.array([[0.0], [1.0], [2.0], [9.0], [8.0]])
    assert validation_kendall(held, [], half) == pytest.approx((3 * 1 + 2 * -1) / 5)


def test_validation_ranks_all_rows_where_no_language_pair_can_be_ranked() -> None:
    held = dataclasses.replace(of_corpora("wmt", "wmt"), language_pairs=["cs-en", "de-en"])
    assert validation_kendall(held, [], numpy.array([[3.0], [4.0]])) == 1.0


def test_graded_candidates_are_graded_only_for_meaning(tmp_path: Path) -> None:
    rows = [rating(f"{i}/{a}", "train", a, "a cat " * i, i / 10) for i in range(6) for a in ("fluency", "adequacy")]
    aspects = ("fluency", "adequacy", "semantics")
    rated = read_rated(write(tmp_path / "ratings", rows), "train", aspects)
    params = dataclasses.replace(PARAMS, aspects=aspects, shares={"graded": 0.25})
    targets = lessons_of(rated, graded_in(tmp_path / "graded", 5), params).targets[6:]
    assert numpy.isnan(targets).all(axis=0).tolist() == [True, False, True]  # semantics is not rated
    with pytest.raises(
        ParamsError, match=r"^finetune\.shares: must not name graded without adequacy or semantics, not"
    ):
        from_mapping(dataclasses.asdict(params) | {"aspects": ["fluency", "grammar"]}, FinetuneParams, "finetune")


def test_fine_tuning_with_graded_candidates_counts_them(tmp_path: Path) -> None:
    graded = graded_in(tmp_path / "graded", 5)
    params = dataclasses.replace(PARAMS, shares={"graded": 0.5})
    start, folder = project(tmp_path, (0.0, 1.0))
    finetune(PARAMS, start, folder, graded, tmp_path / "without")
    finetune(params, start, folder, graded, tmp_path / "with")
    facts = [json.loads((tmp_path / name / "training.json").read_text()) for name in ("without", "with")]
    counts = [json.loads((tmp_path / name / "counts.json").read_text())["rows_out"] for name in ("without", "with")]
    assert "graded" not in facts[0] and facts[1]["graded"] == counts[1] - counts[0] == 2
    assert facts[1]["shares"] == {"graded": 0.5}
    weights = [load_file(tmp_path / name / "model.safetensors") for name in ("without", "with")]
    assert any(not torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_adapters_end_as_changed_weights_of_the_encoders_matrices_alone(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    start, folder = project(tmp_path, (0.0, 1.0))
    params = dataclasses.replace(PARAMS, adapter=2, schedule=dataclasses.replace(SCHEDULE, learning_rate=0.1, steps=4))
    finetune(params, start, folder, tmp_path / "none", tmp_path / "out")
    before, after = (load_file(place / "model.safetensors") for place in (start, tmp_path / "out"))
    assert not [name for name in after if "lora" in name or "base_layer" in name]
    encoder = [name for name in after if name in before and not name.startswith("classifier")]
    moved = [name for name in encoder if not torch.equal(before[name], after[name])]
    assert moved and all(before[name].ndim == 2 and "embeddings" not in name for name in moved if "pooler" not in name)
    ranks = [int(torch.linalg.matrix_rank(after[name] - before[name], rtol=1e-3)) for name in moved if "layer" in name]
    assert ranks and max(ranks) <= 2


def test_validation_ratings_that_are_all_equal_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="validation needs at least two different ratings"):
        finetune(PARAMS, *project(tmp_path, (0.5, 0.5)), tmp_path / "none", tmp_path / "out")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_pairs": 0}, "batch_pairs: must be at least 1, not 0."),
        ({"batch_tokens": 0}, "batch_tokens: must be at least 1, not 0."),
        ({"adapter": 0}, "adapter: must be at least 1, not 0."),
        ({"shares": {"mlqe": 1.0}}, "shares.mlqe: must be below 1, not 1.0."),
        ({"ratings": 0}, "ratings: must be at least 1, not 0."),
        ({"probe": 0.0}, "probe: must be above 0, not 0.0."),
        ({"dropout": 1.0}, "dropout: must be below 1, not 1.0."),
        ({"aspects": []}, "aspects: must name at least one aspect, and none twice, not []."),
        ({"aspects": ["a", "a"]}, "aspects: must name at least one aspect, and none twice, not ['a', 'a']."),
        ({"schedule": dataclasses.asdict(SCHEDULE) | {"steps": 0}}, "schedule.steps: must be at least 1, not 0."),
    ],
)
def test_params_out_of_range_are_refused_by_key(changes: dict[str, Any], message: str) -> None:
    assert from_mapping(dataclasses.asdict(PARAMS), FinetuneParams, "finetune") == PARAMS
    with pytest.raises(ParamsError) as caught:
        from_mapping(dataclasses.asdict(PARAMS) | changes, FinetuneParams, "finetune")
    assert str(caught.value) == f"finetune.{message}"
