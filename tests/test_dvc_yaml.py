"""dvc.yaml against the code: a stage's deps are exactly the modules that it imports, its params the keys it reads."""

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from pipeline.core.closure import ROOT, import_closure
from pipeline.core.records import SIGNAL_COLUMNS

DOCUMENT = YAML(typ="safe").load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))
PARAMS = YAML(typ="safe").load((ROOT / "params.yaml").read_text(encoding="utf-8"))
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
    needed = closure("pipeline.stages.label").union(
        *(closure(f"pipeline.signals.{signal}") for signal in SIGNAL_COLUMNS)
    )
    assert code_deps("label") == (needed - own) | {"pipeline/signals/${item.signal}.py"}
    assert closure("pipeline.stages.label").isdisjoint(own)
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
    if stage == "report":  # shows the profile that ran, whole
        sections[1] = "profiles.${profile}"
    extra = ["variants"] if stage in ("evaluate", "report") else []
    assert sorted(STAGES[stage]["params"]) == sorted(["profile", *sections, *extra])


@pytest.mark.parametrize("profile", sorted(PARAMS["profiles"]))
def test_every_profile_has_a_section_for_every_stage(profile: str) -> None:
    assert set(PARAMS["profiles"][profile]) == set(STAGES)


def test_signals_of_label_are_all_signals() -> None:
    assert STAGES["label"]["matrix"]["signal"] == list(SIGNAL_COLUMNS)


def test_files_named_as_deps_exist() -> None:
    named = {dep for stage in STAGES.values() for dep in stage["deps"] if dep.endswith(".py") and "$" not in dep}
    assert [dep for dep in sorted(named) if not Path(ROOT, dep).is_file()] == []
