"""Every signal's module keeps the contract, and no signal depends on another."""

import dataclasses
from pathlib import Path

import numpy
import pyarrow
import pyarrow.parquet
import pytest
from ruamel.yaml import YAML

from pipeline.core import modules
from pipeline.core.errors import InputError, ParamsError
from pipeline.core.modules import ROOT, import_closure
from pipeline.core.params import load_key, load_params
from pipeline.core.records import PAIRS
from pipeline.core.shards import table_of, write_shard
from pipeline.label.labelling import SIGNALS, label_schema, label_shard, load_signal
from pipeline.label.signals import bertscore, bleu, entailment, flag, rouge

NAMES = modules.names(SIGNALS)

ROWS = [
    ("the old town .", "the old town .", "backtranslate"),
    ("the river", "a river", "mask_fill"),
    ("a", "", "other"),
]


def pairs(rows: list[tuple[str, str, str]]) -> pyarrow.Table:
    empty = {"pivot": None, "mask_style": None, "masks": None, "dropped_words": 0, "parent_id": None, "segment_id": "s"}
    named = [
        {"pair_id": f"p{i}", "reference": z, "candidate": c, "technique": technique, **empty}
        for i, (z, c, technique) in enumerate(rows)
    ]
    return table_of(named, PAIRS)


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    file = tmp_path / "part-00000.parquet"
    write_shard(file, pairs(ROWS))
    return file


@pytest.mark.parametrize("signal", NAMES)
def test_every_signal_keeps_the_contract(signal: str) -> None:
    module = load_signal(signal)
    assert dataclasses.is_dataclass(module.Params)
    assert module.Params.__dataclass_params__.frozen  # type: ignore[attr-defined]
    for field in dataclasses.fields(module.Params):
        assert field.default is dataclasses.MISSING, field.name
    assert module.COLUMNS
    assert [column for column in module.COLUMNS if not f"{column}_".startswith(f"{signal}_")] == []
    assert callable(module.score)
    assert callable(module.models)


@pytest.mark.parametrize("module", ["pipeline.label.__main__", *(f"pipeline.label.signals.{name}" for name in NAMES)])
def test_no_signal_is_in_the_closure_of_the_stage_or_of_another_signal(module: str) -> None:
    others = {f"pipeline/label/signals/{name}.py" for name in NAMES if module != f"pipeline.label.signals.{name}"}
    assert others & {str(file.relative_to(ROOT)) for file in import_closure(module)} == set()


def test_a_shard_keeps_its_rows_in_order_under_the_signals_schema(shard: Path) -> None:
    outcome = label_shard("rouge", 0, [shard], rouge.Params(n=1))
    assert (outcome.rows_in, outcome.rows_out, outcome.dropped) == (3, 3, {})
    assert outcome.table.schema == label_schema(load_signal("rouge"))
    assert outcome.table.to_pylist() == [
        {"pair_id": "p0", "rouge_precision": 1, "rouge_recall": 1, "rouge_fmeasure": 1},
        {"pair_id": "p1", "rouge_precision": 0.5, "rouge_recall": 0.5, "rouge_fmeasure": 0.5},
        {"pair_id": "p2", "rouge_precision": 0, "rouge_recall": 0, "rouge_fmeasure": 0},
    ]


def test_reference_and_candidate_are_not_exchanged(tmp_path: Path, tiny_encoder: Path, tiny_classifier: Path) -> None:
    z, c = "the old town is near", "the old bridge"
    write_shard(tmp_path / "part-00000.parquet", pairs([(z, c, "mask_fill")]))
    encoder = bertscore.Params(str(tiny_encoder), layer=2, idf=False, baseline=None, batch_tokens=64)
    classifier = entailment.Params(str(tiny_classifier), batch_tokens=64)
    direct = {
        "bleu": (bleu.Params("en"), bleu.bleu([z], [c], bleu.Params("en"))),
        "rouge": (rouge.Params(n=1), rouge.rouge([z], [c], rouge.Params(n=1))),
        "bertscore": (encoder, bertscore.bertscore([z], [c], encoder)),
        "entailment": (classifier, entailment.entailment([z], [c], classifier)),
        "flag": (flag.Params(), numpy.array([[0.0, 1.0]])),
    }
    for signal, (params, expected) in direct.items():
        table = label_shard(signal, 0, [tmp_path / "part-00000.parquet"], params).table
        found = [table.column(name)[0].as_py() for name in load_signal(signal).COLUMNS]
        assert found == pytest.approx(expected[0].tolist(), abs=1e-6), signal


@pytest.mark.parametrize(("signal", "params"), [("bleu", bleu.Params("en")), ("flag", flag.Params())])
def test_a_shard_without_rows_gives_one(signal: str, params: object, tmp_path: Path) -> None:
    write_shard(tmp_path / "part-00000.parquet", pairs([]))
    outcome = label_shard(signal, 0, [tmp_path / "part-00000.parquet"], params)
    assert outcome.table.num_rows == 0
    assert outcome.table.schema == label_schema(load_signal(signal))


def test_a_value_that_is_not_finite_is_our_defect(shard: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bleu, "score", lambda pairs, params: numpy.array([[1], [numpy.nan], [0]], numpy.float32))
    with pytest.raises(AssertionError, match="bleu: a value is not finite in shard 7"):
        label_shard("bleu", 7, [shard], bleu.Params("en"))


def test_a_damaged_or_foreign_shard_is_an_input_error(shard: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "part-00001.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"reference": ["a"]}), foreign)
    with pytest.raises(InputError, match=f"^{foreign}: the column is missing: 'pair_id'\\.$"):
        label_shard("bleu", 0, [foreign], bleu.Params("en"))
    shard.write_bytes(shard.read_bytes()[: shard.stat().st_size // 2])
    with pytest.raises(InputError, match=f"^{shard}: not a whole Parquet file "):
        label_shard("bleu", 0, [shard], bleu.Params("en"))


def test_the_columns_are_the_nine_tasks_of_the_paper() -> None:
    """Section 4.2, table 1: these names stand in the shards of labels, in this order."""
    assert {name: load_signal(name).COLUMNS for name in NAMES if name != "metric"} == {
        "bleu": ("bleu",),
        "rouge": ("rouge_precision", "rouge_recall", "rouge_fmeasure"),
        "bertscore": ("bertscore_precision", "bertscore_recall", "bertscore_f1"),
        "backtranslation": (
            "backtranslation_1_reference_candidate",
            "backtranslation_1_candidate_reference",
            "backtranslation_2_reference_candidate",
            "backtranslation_2_candidate_reference",
        ),
        "entailment": ("entailment_entail", "entailment_contradict", "entailment_neutral"),
        "flag": ("flag_backtranslation", "flag_mask_fill"),
    }


def test_an_unknown_signal_is_refused_by_the_names_of_those_that_exist() -> None:
    with pytest.raises(ParamsError, match=r"^signals: must be one of backtranslation, bertscore, .*, not 'meteor'\.$"):
        load_signal("meteor")


@pytest.mark.parametrize("signal", ["bleu", "rouge", "flag"])
def test_signals_that_count_words_import_no_teacher(signal: str) -> None:
    files = {str(file.relative_to(ROOT)) for file in import_closure(f"{SIGNALS}.{signal}")}
    files |= {str(file.relative_to(ROOT)) for file in import_closure("pipeline.label.__main__")}
    assert [file for file in sorted(files) if file.startswith("pipeline/teachers/")] == []


@pytest.mark.parametrize("signal", NAMES)
def test_every_signal_has_its_values_in_params_under_every_profile(signal: str, tmp_path: Path) -> None:
    text = (ROOT / "params.yaml").read_text(encoding="utf-8")
    for profile in YAML(typ="safe").load(text)["profiles"]:
        (tmp_path / "params.yaml").write_text(text.replace("\nprofile: embedded\n", f"\nprofile: {profile}\n"))
        assert load_key(tmp_path / "params.yaml", "profile") == profile
        params = load_signal(signal).Params
        assert isinstance(load_params(tmp_path / "params.yaml", f"label.{signal}", params), params)
