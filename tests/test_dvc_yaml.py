"""dvc.yaml against the code: deps are the folders that a stage lives on, params the keys that it reads; overrides."""

from collections.abc import Iterator
from functools import reduce
from typing import Any

import pytest
from dvc.utils.hydra import apply_overrides
from ruamel.yaml import YAML

from pipeline.core import modules
from pipeline.core.modules import ROOT, import_closure
from pipeline.core.params import MODELS
from pipeline.core.params import STAGES as SECTIONS

DVC_TEXT = (ROOT / "dvc.yaml").read_text(encoding="utf-8")
DOCUMENT = YAML(typ="safe").load(DVC_TEXT)
PARAMS_TEXT = (ROOT / "params.yaml").read_text(encoding="utf-8")
PARAMS = YAML(typ="safe").load(PARAMS_TEXT)
STAGES = {name: stage.get("do", stage) for name, stage in DOCUMENT["stages"].items()}
SIGNALS = modules.names("pipeline.label.signals")
ELSEWHERE = {"pretrain": ["signals"], "evaluate": ["variants"]}
OF_MODELS = {
    "adapt": [f"{MODELS}.encoder"],
    "perturb": [MODELS],
    "pretrain": [f"{MODELS}.encoder"],
    "evaluate": [f"{MODELS}.encoder"],
}


def code_deps(stage: str, signal: str = "") -> set[str]:
    return {dep.replace("${key}", signal) for dep in STAGES[stage]["deps"] if dep.startswith("pipeline/")}


def closure(stage: str, signal: str = "") -> set[str]:
    """Every file that a stage can run: its folder's modules, members included, and all that they import."""
    folder = ROOT / "pipeline" / stage
    own = [file for file in folder.rglob("*.py") if not signal or file.parent != folder / "signals"]
    names = [".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for file in own]
    names += [f"pipeline.{stage}.signals.{signal}"] if signal else []
    return {str(file.relative_to(ROOT)) for name in names for file in import_closure(name)}


def under(file: str, deps: set[str]) -> bool:
    return any(file == dep or file.startswith(f"{dep}/") for dep in deps)


def test_every_stage_is_a_folder_with_a_main_module() -> None:
    assert set(STAGES) == set(SECTIONS)
    assert [stage for stage in STAGES if not (ROOT / "pipeline" / stage / "__main__.py").is_file()] == []


@pytest.mark.parametrize("stage", sorted(set(STAGES) - {"label"}))
def test_deps_are_the_folders_that_a_stage_lives_on(stage: str) -> None:
    deps, files = code_deps(stage), closure(stage)
    assert [file for file in sorted(files) if not under(file, deps)] == []
    assert [dep for dep in sorted(deps) if not any(under(file, {dep}) for file in files)] == []


@pytest.mark.parametrize("signal", SIGNALS)
def test_an_item_of_label_depends_on_its_own_signal_and_not_on_the_others(signal: str) -> None:
    deps = code_deps("label", signal)
    package_files = {"pipeline/label/__init__.py", "pipeline/label/signals/__init__.py"}
    assert [file for file in sorted(closure("label", signal) - package_files) if not under(file, deps)] == []
    others = {f"pipeline/label/signals/{other}.py" for other in SIGNALS} - {f"pipeline/label/signals/{signal}.py"}
    assert [file for file in sorted(others) if under(file, deps)] == []


def test_bleu_needs_no_model_and_no_translator() -> None:
    assert PARAMS["signals"]["bleu"] == "text"
    assert {profile[MODELS]["text"] for profile in PARAMS["profiles"].values()} == {"none"}
    assert not [dep for dep in STAGES["label"]["deps"] if "translator" in dep or "models/" in dep]
    assert not [file for file in closure("label", "bleu") if file.startswith("pipeline/teachers/")]


@pytest.mark.parametrize("stage", sorted(STAGES))
def test_a_stage_describes_itself_and_runs_its_own_module(stage: str) -> None:
    assert len(STAGES[stage]["desc"]) > 20
    assert STAGES[stage]["cmd"].startswith(f"python -m pipeline.{stage} --params params.yaml ")


@pytest.mark.parametrize("stage", sorted(set(STAGES) - {"label", "report"}))
def test_params_are_the_stages_sections(stage: str) -> None:
    models = [f"profiles.${{profile}}.{key}" for key in OF_MODELS.get(stage, [])]
    extra = ELSEWHERE.get(stage, [])
    assert sorted(STAGES[stage]["params"]) == sorted(
        ["profile", stage, f"profiles.${{profile}}.{stage}", *models, *extra]
    )


def test_params_of_label_are_those_of_the_signal_and_of_its_models() -> None:
    assert STAGES["label"]["params"] == ["profile", "label.${key}", "profiles.${profile}.models.${item}"]


def test_report_shows_every_stages_params() -> None:
    assert set(STAGES["report"]["params"]) == {"profile", "variants", "signals", "profiles.${profile}", *SECTIONS}


@pytest.mark.parametrize("profile", sorted(PARAMS["profiles"]))
def test_every_profile_names_its_models_and_sizes(profile: str) -> None:
    section = PARAMS["profiles"][profile]
    assert set(section) == {MODELS, *SECTIONS} - {"label", "report"}
    assert {*PARAMS["signals"].values(), "mask_filler"} <= set(section[MODELS])


def test_the_signals_are_those_of_params() -> None:
    assert DOCUMENT["stages"]["label"]["foreach"] == "${signals}"
    assert set(PARAMS["signals"]) == set(SIGNALS) - {"metric"}, "which needs a metric that is trained already"


def test_own_files_re_run_the_stages_that_read_them() -> None:
    assert {stage for stage in STAGES if "data/own" in STAGES[stage]["deps"]} == {
        "extract",
        "perturb",
        "grade",
        "collect",
    }
    assert (ROOT / "data" / "own").is_dir()


def test_the_map_and_the_params_can_be_read_at_one_sitting() -> None:
    assert len(DVC_TEXT.splitlines()) <= 170
    assert len(PARAMS_TEXT.splitlines()) <= 296


def test_params_hold_no_anchor_alias_or_merge() -> None:
    marked = [event for event in YAML().parse(PARAMS_TEXT) if getattr(event, "anchor", None) is not None]
    assert marked == []
    assert "<<" not in PARAMS_TEXT


def leaves(values: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Dotted names of all values that are not mappings."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def at(values: dict[str, Any], name: str) -> Any:
    return reduce(lambda part, key: part[key], name.split("."), values)


def test_an_override_changes_only_its_own_value(tmp_path: Any) -> None:
    """As `dvc exp run -S name=value`: all values at once, each to a number of its own; then one, the rest stays."""
    file = tmp_path / "params.yaml"
    file.write_text(PARAMS_TEXT, encoding="utf-8")
    numbers = {name: 100_000 + place for place, name in enumerate(leaves(PARAMS))}
    apply_overrides(file, [f"{name}={number}" for name, number in numbers.items()])
    changed = YAML(typ="safe").load(file.read_text(encoding="utf-8"))
    assert {name: at(changed, name) for name in numbers} == numbers
    apply_overrides(file, ["profiles.embedded.pretrain.schedule.steps=5"])
    again = YAML(typ="safe").load(file.read_text(encoding="utf-8"))
    numbers["profiles.embedded.pretrain.schedule.steps"] = 5
    assert {name: at(again, name) for name in numbers} == numbers


def test_files_and_folders_named_as_code_exist() -> None:
    named = {
        dep for stage in STAGES.values() for dep in stage["deps"] if dep.startswith("pipeline/") and "$" not in dep
    }
    assert [dep for dep in sorted(named) if not (ROOT / dep).exists()] == []
