"""dvc.yaml against the code: deps are the modules that a stage imports, params the keys that it reads; overrides."""

from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from dvc.utils.hydra import apply_overrides
from ruamel.yaml import YAML

from pipeline.core.closure import ROOT, import_closure
from pipeline.core.records import SIGNAL_COLUMNS

DOCUMENT = YAML(typ="safe").load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))
PARAMS_TEXT = (ROOT / "params.yaml").read_text(encoding="utf-8")
PARAMS = YAML(typ="safe").load(PARAMS_TEXT)
STAGES = DOCUMENT["stages"]


def closure(module: str) -> set[str]:
    return {str(file.relative_to(ROOT)) for file in import_closure(module)}


def code_deps(stage: str) -> set[str]:
    return {dep for dep in STAGES[stage]["deps"] if dep.startswith("pipeline/")}


def test_every_stage_module_is_a_stage_and_every_stage_a_module() -> None:
    modules = {file.stem for file in (ROOT / "pipeline" / "stages").glob("*.py")} - {"__init__"}
    assert modules == set(STAGES)


@pytest.mark.parametrize("stage", sorted(set(STAGES) - {"label"}))
def test_deps_are_the_import_closure(stage: str) -> None:
    assert code_deps(stage) == closure(f"pipeline.stages.{stage}")


def test_an_item_of_label_depends_on_its_own_signal_and_not_on_the_others() -> None:
    own = {f"pipeline/signals/{signal}.py" for signal in SIGNAL_COLUMNS}
    needed = closure("pipeline.label.__main__").union(
        *(closure(f"pipeline.signals.{signal}") for signal in SIGNAL_COLUMNS)
    )
    assert code_deps("label") == (needed - own) | {"pipeline/signals/${item.signal}.py"}
    assert closure("pipeline.label.__main__").isdisjoint(own)
    for signal in SIGNAL_COLUMNS:
        assert closure(f"pipeline.signals.{signal}") & own == {f"pipeline/signals/{signal}.py"}


@pytest.mark.parametrize("stage", sorted(STAGES))
def test_a_stage_describes_itself_and_runs_its_own_module(stage: str) -> None:
    assert len(STAGES[stage]["desc"]) > 20
    assert f"-m pipeline.stages.{stage} " in STAGES[stage]["cmd"]


@pytest.mark.parametrize("stage", sorted(STAGES))
def test_params_are_the_stages_sections(stage: str) -> None:
    suffix = ".${item.signal}" if stage == "label" else ""
    sections = [f"{stage}{suffix}", f"profiles.${{profile}}.{stage}{suffix}"]
    if stage == "report":  # shows every stage's parameters
        sections = [*STAGES, "profiles.${profile}"]
    extra = ["variants"] if stage in ("evaluate", "report") else []
    assert sorted(STAGES[stage]["params"]) == sorted(["profile", *sections, *extra])


@pytest.mark.parametrize("profile", sorted(PARAMS["profiles"]))
def test_every_profile_has_a_section_for_every_stage(profile: str) -> None:
    assert set(PARAMS["profiles"][profile]) == set(STAGES)


def test_signals_of_label_are_all_signals() -> None:
    assert STAGES["label"]["matrix"]["signal"] == list(SIGNAL_COLUMNS)


def test_own_files_re_run_the_stages_that_read_them() -> None:
    assert {stage for stage in STAGES if "data/own" in STAGES[stage]["deps"]} == {
        "extract",
        "perturb",
        "grade",
        "collect",
    }
    assert (ROOT / "data" / "own").is_dir()


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


def test_an_override_changes_its_own_value_alone(tmp_path: Path) -> None:
    """As `dvc exp run -S name=value`: all values at once, each to a number of its own; then one, the rest stays."""
    file = tmp_path / "params.yaml"
    file.write_text(PARAMS_TEXT, encoding="utf-8")
    numbers = {name: 100_000 + place for place, name in enumerate(leaves(PARAMS))}
    apply_overrides(file, [f"{name}={number}" for name, number in numbers.items()])
    changed = YAML(typ="safe").load(file.read_text(encoding="utf-8"))
    assert {name: at(changed, name) for name in numbers} == numbers
    apply_overrides(file, ["profiles.embedded.label.bertscore.layer=5"])
    again = YAML(typ="safe").load(file.read_text(encoding="utf-8"))
    numbers["profiles.embedded.label.bertscore.layer"] = 5
    assert {name: at(again, name) for name in numbers} == numbers


def test_files_named_as_deps_exist() -> None:
    named = {dep for stage in STAGES.values() for dep in stage["deps"] if dep.endswith(".py") and "$" not in dep}
    assert [dep for dep in sorted(named) if not Path(ROOT, dep).is_file()] == []
