"""Checkpoints of the original BLEURT: its scores, every command on them, conversions, training on, its import path."""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from safetensors.torch import save_file
from tiny_original import POSITIONS, random_classifier, save_original, small_pieces, write_bundle
from transformers import BertTokenizerFast

from pipeline.core.errors import ModelError
from pipeline.core.models import load_config, load_tokenizer, locate
from pipeline.core.modules import ROOT
from pipeline.core.records import RATINGS
from pipeline.core.shards import shard_name, table_of, write_shard
from pipeline.finetune.finetuning import finetune
from pipeline.finetune.heads import Encoder, EsimParams, EstimatorParams, RegressorParams, System
from pipeline.finetune.lessons import FinetuneParams
from pipeline.metric.beside import Reads
from pipeline.metric.checkpoint import Head, load_metric, new_metric
from pipeline.metric.pairs import kept_tokens
from pipeline.metric.regressor import Inputs, Vectors
from pipeline.pretrain.pretraining import PretrainParams, pretrain
from pipeline.scoring.__main__ import main
from pipeline.scoring.scorer import BleurtScorer
from pipeline.training.schedule import Schedule

REFERENCES = ["the cat sat on the mat.", "a dog ran.", "the small red house", "", "the bird sat"]
CANDIDATES = ["the cat sat.", "the dog ran", "the small house was red", "paris", ""]
LONG = " ".join(["the small red house."] * 12)


@pytest.fixture(autouse=True)
def _on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLEURT_DEVICE", "cpu")
    locate.cache_clear()


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of the original's format with random weights, which no test changes."""
    folder = tmp_path_factory.mktemp("original") / "bleurt-tiny"
    save_original(folder)
    return folder


def expected(model: Any, tokenizer: Any, references: Sequence[str], candidates: Sequence[str]) -> list[float]:
    """Scores of `model` one pair at a time."""
    with torch.inference_mode():
        return [
            float(model(**{name: torch.tensor(rows) for name, rows in tokenizer([z], [c]).items()}).logits)
            for z, c in zip(references, candidates, strict=True)
        ]


@pytest.mark.parametrize("kind", ["wordpiece", "sentencepiece"])
def test_scores_are_the_originals(real_data: Path, kind: str, tmp_path: Path) -> None:
    """The original's BleurtScorer (TensorFlow 2.13.1) on 170 pairs: empty sides, other scripts, overlong texts."""
    oracle = real_data.parent / "oracle" / "bleurt-format"
    if not oracle.is_dir():
        pytest.skip("the original's scores are not here")
    lines = (oracle / f"{kind}.tsv").read_text(encoding="utf-8").split("\n")[:-1]
    references, candidates, scores = zip(*(line.split("\t") for line in lines), strict=True)
    found = BleurtScorer(oracle / kind, precision="float32").score(references, candidates)
    numpy.testing.assert_allclose(found, [float(score) for score in scores], atol=1e-5, rtol=0)
    for name, texts in (("r.txt", references), ("c.txt", candidates)):
        (tmp_path / name).write_text("\n".join(texts) + "\n", encoding="utf-8")
    files = ["-reference_file", str(tmp_path / "r.txt"), "-candidate_file", str(tmp_path / "c.txt")]
    assert main([*files, "-bleurt_checkpoint", str(oracle / kind), "-scores_file", str(tmp_path / "s.txt")]) == 0
    written = [float(line) for line in (tmp_path / "s.txt").read_text().splitlines()]
    numpy.testing.assert_allclose(written, [float(score) for score in scores], atol=1e-5, rtol=0)


@pytest.mark.parametrize("embedding_size", [None, 8])
def test_a_checkpoint_computes_what_transformers_layers_compute(tmp_path: Path, embedding_size: int | None) -> None:
    """With an embedding size these are RemBERT's layers: LayerNorm at that width, then a projection."""
    model = save_original(tmp_path / "o", embedding_size)
    tokenizer = load_tokenizer(tmp_path / "o")
    scorer = BleurtScorer(tmp_path / "o", precision="float32")
    assert type(scorer.model) is type(model)
    wanted = expected(model, tokenizer, REFERENCES, CANDIDATES)
    numpy.testing.assert_allclose(scorer.score(REFERENCES, CANDIDATES), wanted, atol=1e-5)
    assert len({round(score, 5) for score in wanted}) == len(wanted)
    signature = str(scorer.signature())
    assert signature.endswith(
        f"max_tokens:{POSITIONS}|references:max|long:cut|character_references:kept|edges:none|activation:gelu_pytorch_tanh"
        "|reads:reference"
    )


def test_of_two_long_sides_the_reference_keeps_the_odd_token(original: Path) -> None:
    """The room is 29 tokens. The original takes from the longer side, and from the candidate if both are equal."""
    tokenizer, ours = load_tokenizer(original), None
    for lengths in ((20, 20), (20, 25), (25, 20)):
        sides = [None, *[0] * lengths[0], None, *[1] * lengths[1], None]
        kept = [sides[place] for place in kept_tokens(sides, POSITIONS, tokenizer)]
        assert (kept.count(0), kept.count(1)) == (15, 14)
    sides = [None, *[0] * 5, None, *[1] * 40, None]
    assert kept_tokens(sides, POSITIONS, tokenizer) == kept_tokens(sides, POSITIONS, ours)


def test_texts_are_read_as_given(original: Path) -> None:
    """The original removes \\x1c where our clean-up makes it a space."""
    scorer = BleurtScorer(original)
    assert scorer.score(["the c\x1cat"], ["the dog"]) == scorer.score(["the cat"], ["the dog"])
    assert scorer.score(["the c\x1cat"], ["the dog"]) != scorer.score(["the c at"], ["the dog"])


def test_a_warmed_up_bert_is_an_encoder(tmp_path: Path) -> None:
    weights = save_original(tmp_path / "bert", warmed_up=True).state_dict()
    model = new_metric(str(tmp_path / "bert"), Head.CLS, ["adequacy"], 0.1, 1)
    for name, weight in model.state_dict().items():
        assert name.startswith("classifier") or torch.equal(weight, weights[name])
    assert (
        load_tokenizer(tmp_path / "bert")("THE cat")["input_ids"]
        == load_tokenizer(tmp_path / "bert")("the cat")["input_ids"]
    )
    assert new_metric(str(tmp_path / "bert"), Head.ALIGNMENT, ["adequacy"], 0.1, 1).config.max_position_embeddings == 32
    with pytest.raises(ModelError, match=r"2 weights of BertForSequenceClassification are missing.*classifier\.bias"):
        load_metric(tmp_path / "bert")


def test_missing_and_damaged_files_are_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_original(tmp_path / "o")
    variables = tmp_path / "o" / "variables"

    def error() -> str:
        locate.cache_clear()
        arguments = ["-r", str(tmp_path / "r"), "-t", str(tmp_path / "t"), "-c", str(tmp_path / "o")]
        assert main(["score", *arguments]) == 2
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 1
        return lines[0]

    for name in "rt":
        (tmp_path / name).write_text("a cat\n")
    for file, message in (
        (tmp_path / "o" / "vocab.txt", "vocab.txt, the vocabulary of the tokenizer, is missing."),
        (tmp_path / "o" / "bert_config.json", "bert_config.json: is missing."),
        (variables / "variables.index", "is no whole BLEURT checkpoint: variables/variables.index is missing."),
        (variables / "variables.data-00000-of-00001", "cannot be read (No such file or directory)."),
    ):
        content = file.read_bytes()
        file.unlink()
        assert error().endswith(message)
        file.write_bytes(content)
    data = variables / "variables.data-00000-of-00001"
    content = data.read_bytes()
    data.write_bytes(content[:-200])
    assert "is cut" in error()
    data.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    assert "the checksum of the variable" in error()
    data.write_bytes(content)
    config = tmp_path / "o" / "bert_config.json"
    config.write_text(config.read_text().replace('"hidden_size": 16', '"hidden_size": 24'))
    assert "missing or of another shape" in error()
    config.write_text("{")
    assert error().endswith("bert_config.json: is not JSON.")


def test_what_the_metric_has_no_place_for_is_refused(tmp_path: Path) -> None:
    save_original(tmp_path / "o", 8)
    config = tmp_path / "o" / "bert_config.json"
    settings = json.loads(config.read_text())
    config.write_text(json.dumps({name: value for name, value in settings.items() if name != "embedding_size"}))
    with pytest.raises(ModelError, match="the weights have factorised embeddings, but its config no embedding_size"):
        load_metric(tmp_path / "o")
    config.write_text(json.dumps({**settings, "hidden_act": "swish"}))
    with pytest.raises(ModelError, match="the activation 'swish' is not one of gelu, relu, tanh, linear"):
        load_config(tmp_path / "o")
    config.write_text(json.dumps(settings))
    write_bundle(tmp_path / "o" / "variables" / "variables", {"dense_1/kernel": numpy.zeros((2, 1), "f4")})
    with pytest.raises(ModelError, match=r"has hidden layers behind the encoder \(dense_1/kernel\)"):
        load_metric(tmp_path / "o")


@pytest.mark.parametrize("kind", ["wordpiece", "factorised", "sentencepiece"])
def test_a_converted_checkpoint_gives_the_same_scores(tmp_path: Path, kind: str) -> None:
    pieces = small_pieces() if kind == "sentencepiece" else None
    save_original(tmp_path / "o", 8 if kind == "factorised" else None, pieces_model=pieces)
    assert main(["convert", str(tmp_path / "o"), str(tmp_path / "out")]) == 0
    before, after = (BleurtScorer(tmp_path / name) for name in ("o", "out"))
    references, candidates = [*REFERENCES, LONG], [*CANDIDATES, LONG + " paris"]
    with pytest.warns(UserWarning, match="of 6 pairs have more than 32 tokens"):
        found, wanted = (scorer.score(references, candidates) for scorer in (after, before))
    numpy.testing.assert_allclose(found, wanted, atol=1e-6, rtol=0)
    assert (after.max_tokens, after.output) == (before.max_tokens, before.output) == (POSITIONS, "adequacy")
    assert str(after.signature()).split("|")[2:] == str(before.signature()).split("|")[2:]
    assert main(["convert", str(tmp_path / "out"), str(tmp_path / "again")]) == 2
    assert main(["convert", str(tmp_path / "o"), str(tmp_path / "out")]) == 2


@pytest.mark.parametrize("embedding_size", [None, 8])
def test_a_conversion_of_the_type_bleurt_keeps_its_own_activation(tmp_path: Path, embedding_size: int | None) -> None:
    """The names of bleurt-pytorch: bleurt.embeddings…, embedding_projection, a buffer of positions, exact GELU."""
    model = random_classifier(embedding_size, "gelu")
    folder = tmp_path / "conversion"
    save_original(folder, embedding_size)
    shutil.rmtree(folder / "variables")
    for name in ("bleurt_config.json", "bert_config.json"):
        (folder / name).unlink()
    names = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
             "max_position_embeddings", "type_vocab_size", "hidden_act", "layer_norm_eps")  # fmt: skip
    config = {name: getattr(model.config, name) for name in names} | {"model_type": "bleurt"}
    config |= {"embedding_size": embedding_size, "id2label": {"0": "LABEL_0"}}
    (folder / "config.json").write_text(json.dumps(config))
    prefix = "rembert" if embedding_size else "bert"
    weights = {
        name.replace(prefix, "bleurt").replace("embedding_hidden_mapping_in", "embedding_projection"): weight.clone()
        for name, weight in model.state_dict().items()
    }
    if embedding_size:  # one reads vocab.txt, the other tokenizer.json
        BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
        (folder / "vocab.txt").unlink()
    save_file(weights | {"bleurt.embeddings.position_ids": torch.arange(32)[None]}, folder / "model.safetensors")
    scorer = BleurtScorer(folder, precision="float32")
    wanted = expected(model, load_tokenizer(folder), REFERENCES, CANDIDATES)
    numpy.testing.assert_allclose(scorer.score(REFERENCES, CANDIDATES), wanted, atol=1e-5)
    assert str(scorer.signature()).endswith("|activation:gelu|reads:reference")
    assert scorer.max_tokens == POSITIONS


def test_a_conversion_to_bert_reads_what_its_config_allows(tmp_path: Path) -> None:
    model = random_classifier(None, "gelu")
    model.save_pretrained(tmp_path)
    save_original(tmp_path / "o")
    BertTokenizerFast(vocab=str(tmp_path / "o" / "vocab.txt")).save_pretrained(tmp_path)
    scorer = BleurtScorer(tmp_path, precision="float32")
    wanted = expected(model, load_tokenizer(tmp_path), REFERENCES, CANDIDATES)
    numpy.testing.assert_allclose(scorer.score(REFERENCES, CANDIDATES), wanted, atol=1e-5)
    assert (scorer.max_tokens, scorer.output) == (POSITIONS, "LABEL_0")
    assert str(scorer.signature()).endswith("|edges:2|activation:gelu|reads:reference")


def rating(number: int, split: str, candidate: str, score: float) -> dict[str, Any]:
    row = dict.fromkeys(RATINGS.names)
    named = {"rating_id": f"own/{number}", "corpus": "own", "split": split, "aspect": "adequacy", "score": score}
    return {**row, **named, "reference": "the cat", "other_references": [], "candidate": candidate}


@pytest.mark.parametrize(("embedding_size", "head"), [(None, Head.CLS), (8, Head.ALIGNMENT)])
def test_the_pipeline_trains_it_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, embedding_size: int | None, head: Head
) -> None:
    """`pretrain.encoder: FOLDER` with the variant none, then fine-tuning on own ratings, as the stages do it."""
    monkeypatch.chdir(tmp_path)
    save_original(tmp_path / "o", embedding_size)
    schedule = Schedule(steps=2, learning_rate=0.01, layer_decay=0.9, weight_decay=0.0, warmup_share=0.1, clip_norm=1.0,
                        evaluate_every=1, save_every=1, seed=1)  # fmt: skip
    start = PretrainParams(encoder=str(tmp_path / "o"), head=head, continue_from=None, adapter=None,
                           max_tokens=16, batch_pairs=2,
                           dropout=0.0, standardise=True, weights={}, losses={}, validation_share=0.3,
                           validation_pairs=9, batch_tokens=64, schedule=schedule)  # fmt: skip
    pretrain(start, (), "none", tmp_path / "pairs", tmp_path / "labels", tmp_path / "none")
    words = ("cat", "dog", "house", "bird", "mat", "paris")
    rows = [rating(i, "train" if i < 4 else "validation", f"the {word}", i / 3) for i, word in enumerate(words)]
    write_shard(tmp_path / "ratings" / shard_name(0), table_of(rows, RATINGS))
    regressor = RegressorParams(
        encoders=(), inputs=Inputs.APART, vectors=Vectors.MEAN, layers=(1,), widths=(4,), dropouts=(0.0,), batches=(2,)
    )
    params = FinetuneParams(
        reads=Reads.REFERENCE, encoder=Encoder.TUNED, head=System.KEPT, regressor=regressor, esim=EsimParams(width=4),
        estimator=EstimatorParams(width=4),
        language_pairs=("*",), without_language_pairs=(), aspects=("adequacy",), ratings=None, shares={},
        own_scale=(), adapter=None, validation_pairs=None, members=1,
        start=None, probe=None, max_tokens=16, batch_pairs=2, dropout=0.0, batch_tokens=64, schedule=schedule,
    )  # fmt: skip
    finetune(params, tmp_path / "none", tmp_path / "ratings", tmp_path / "graded", tmp_path / "tuned")
    scorer = BleurtScorer(tmp_path / "tuned")
    assert scorer.output == "adequacy"
    assert str(scorer.signature()).endswith("|edges:2|activation:gelu_pytorch_tanh|reads:reference")
    assert scorer.score(["the cat"], ["the dog"]) != BleurtScorer(tmp_path / "none").score(["the cat"], ["the dog"])


def test_long_texts_are_read_in_windows(original: Path) -> None:
    found = BleurtScorer(original, long="windows").score_detailed([LONG, "a cat"], [LONG, "a cat"])
    assert found[0].windows > 2 and not found[0].truncated and found[1].windows == 1


def test_every_command_takes_it(original: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = {"r.txt": REFERENCES, "a.txt": CANDIDATES, "b.txt": REFERENCES}
    for name, texts in named.items():
        (tmp_path / name).write_text("\n".join(texts) + "\n")
    r, a, b = (str(tmp_path / name) for name in named)
    checkpoint = ["--checkpoint", str(original)]
    assert main(["compare", "-r", r, "-t", a, b, *checkpoint, "--resamples", "20", "--permutations", "20"]) == 0
    assert main(["explain", "-r", r, "-t", a, "--worst", "1", *checkpoint, "--format", "json"]) == 0
    printed = capsys.readouterr().out
    (panel,) = json.loads(printed[printed.index('{\n "method"') :])["pairs"]
    found = panel["attribution"]
    total = sum(word["value"] for side in ("reference", "candidate") for word in found[side])
    assert found["score"] - found["baseline"] - found["gap"] == pytest.approx(total, abs=1e-4)
    ratings = "reference,candidate,score\n" + "".join(
        f"{z or 'x'},{c or 'y'},{i}\n" for i, (z, c) in enumerate(zip(REFERENCES, CANDIDATES, strict=True))
    )
    (tmp_path / "ratings.csv").write_text(ratings)
    few = ["--baselines", "sentbleu", "--resamples", "20", "--permutations", "20", "--format", "json"]
    assert main(["benchmark", "--ratings", str(tmp_path / "ratings.csv"), *checkpoint, *few]) == 0
    signatures = json.loads(capsys.readouterr().out)["signatures"]
    assert signatures["bleurt/bleurt-tiny"].endswith(
        f"|max_tokens:{POSITIONS}|references:max|long:cut|character_references:undone|edges:none|"
        "activation:gelu_pytorch_tanh|reads:reference"
    )


def test_a_calibrated_checkpoint_gives_percentiles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_original(tmp_path / "o")
    words = ("cat", "dog", "house", "bird", "mat", "paris")
    rows = [rating(i, "validation", f"the {word}", i / 3) for i, word in enumerate(words)]
    write_shard(tmp_path / "ratings" / shard_name(0), table_of(rows, RATINGS))
    assert main(["calibrate", "--checkpoint", str(tmp_path / "o"), "--ratings", str(tmp_path / "ratings")]) == 0
    (found,) = BleurtScorer(tmp_path / "o").score_detailed(["the cat"], ["the dog"])
    assert found.percentile is not None and 0 <= found.percentile <= 100
    assert main(["convert", str(tmp_path / "o"), str(tmp_path / "out")]) == 0
    (again,) = BleurtScorer(tmp_path / "out").score_detailed(["the cat"], ["the dog"])
    assert again.percentile == pytest.approx(found.percentile, abs=0.1)


def test_selftest_compares_published_scores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A checkpoint with the test checkpoint's name and other weights differs, and says so without failing."""
    save_original(tmp_path / "o")
    config = tmp_path / "o" / "bleurt_config.json"
    config.write_text(config.read_text().replace('"tiny"', '"dbleurt_tiny"'))
    assert main(["selftest", "--checkpoint", str(tmp_path / "o")]) == 0
    printed = capsys.readouterr().out
    assert printed.count("DIFF  published scores of dbleurt_tiny") == 2
    assert "score_test.py" in printed and printed.endswith("PASS\n")


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A process that finds the import path where setup.py puts it, last."""
    start = f"import sys; sys.path.append({str(ROOT / 'pipeline/scoring/import_path')!r})\n"
    command = [sys.executable, "-c", start + code, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_originals_import_path(original: Path, tmp_path: Path) -> None:
    for name, texts in (("r", REFERENCES), ("c", CANDIDATES)):
        (tmp_path / name).write_text("\n".join(texts) + "\n")
    code = f"""
from bleurt import score
from bleurt.score_files import main
references, candidates = {REFERENCES!r}, {CANDIDATES!r}
for kind in (score.BleurtScorer, score.LengthBatchingBleurtScorer):
    scorer = kind({str(original)!r})
    found = scorer.score(references=references, candidates=candidates, batch_size=2)
    print(found, scorer.score(references=[], candidates=[]))
try:
    scorer.score(references, candidates)
except AssertionError as error:
    print(error)
main(["-reference_file={tmp_path}/r", "-candidate_file={tmp_path}/c", "-bleurt_checkpoint", {str(original)!r},
      "-scores_file={tmp_path}/s", "-bleurt_batch_size=3", "-batch_same_length", "-read_buffer_size=7"])
"""
    done = python(code)
    assert done.returncode == 0, done.stderr
    wanted = BleurtScorer(original).score(REFERENCES, CANDIDATES)
    first, second, third = done.stdout.splitlines()
    for line in (first, second):
        found, empty = json.loads(line.partition("] ")[0] + "]"), line.partition("] ")[2]
        numpy.testing.assert_allclose(found, wanted, atol=1e-5)
        assert empty == "[]"
    assert third == "name the arguments: score(references=..., candidates=...)"
    numpy.testing.assert_allclose([float(line) for line in (tmp_path / "s").read_text().split()], wanted, atol=1e-5)
