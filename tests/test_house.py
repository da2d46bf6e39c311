"""The house: floors that imports never climb, no circles, no stage inside another stage, modules of a readable size."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from pipeline.core.modules import ROOT, imported_modules
from pipeline.core.params import STAGES

FLOORS = (
    ("core",),
    ("files",),
    ("teachers", "metric", "statistics"),
    ("training",),
    STAGES,
    ("scoring", "bundled", "plan"),
)
"""Packages from the lowest floor to the highest; those of one floor do not import each other."""

FLOOR = {package: number for number, packages in enumerate(FLOORS) for package in packages}
LONGEST = 300
MOST_MODULES = 157
"""As many as there are, packages' own files and members of registries apart: a member more is no module too many."""

MEMBERS = ("signals", "techniques", "metrics", "layouts", "recipes", "cli")

MODULES = sorted((ROOT / "pipeline").rglob("*.py"))


def name_of(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def edges() -> Iterator[tuple[str, str]]:
    """(module, module that it imports), anywhere in the code."""
    for file in MODULES:
        for found in imported_modules(file):
            yield name_of(file), found


def package_of(module: str) -> str:
    return [*module.split("."), ""][1]


def test_every_package_stands_on_a_floor() -> None:
    assert {package_of(name_of(file)) for file in MODULES} - {""} == set(FLOOR)


def test_no_import_goes_up_or_across_a_floor() -> None:
    wrong = [
        f"{importer} imports {imported}"
        for importer, imported in edges()
        if package_of(importer) != package_of(imported) and FLOOR[package_of(importer)] <= FLOOR[package_of(imported)]
    ]
    assert wrong == []


def test_no_import_runs_in_a_circle() -> None:
    graph: dict[str, set[str]] = {}
    for importer, imported in edges():
        graph.setdefault(importer, set()).add(imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_nothing_runs_at_import_but_definitions() -> None:
    """Law 1: importing a module reads no file and computes nothing."""
    calls = [
        f"{name_of(file)}:{node.lineno}"
        for file in MODULES
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.For | ast.While | ast.With)
    ]
    assert calls == []


def test_modules_are_of_a_readable_size() -> None:
    long = {name_of(file): len(file.read_text(encoding="utf-8").splitlines()) for file in MODULES}
    assert {name: lines for name, lines in long.items() if lines > LONGEST} == {}


def test_modules_are_few() -> None:
    """Packages' own files do not count: they hold docstrings, or the contract of the package's members."""
    modules = [file for file in MODULES if file.name != "__init__.py" and file.parent.name not in MEMBERS]
    assert len(modules) <= MOST_MODULES, len(modules)
