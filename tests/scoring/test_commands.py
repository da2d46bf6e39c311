"""Subcommands are found by name: one that is dropped into the folder is listed and runs."""

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.core.modules import ROOT
from pipeline.scoring.__main__ import summaries

TOY = '''"""`bleurt greet`: greet somebody.

  bleurt greet --name Ada
"""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its flags."""
    parser.add_argument("--name", required=True, help="whom")


def run(arguments: argparse.Namespace) -> int:
    """Greet."""
    print(f"Hello, {arguments.name}.")
    return 3
'''


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with one more subcommand, and nothing else changed."""
    folder = tmp_path_factory.mktemp("tree")
    shutil.copytree(ROOT / "pipeline", folder / "pipeline", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "pipeline" / "scoring" / "cli" / "greet.py").write_text(TOY, encoding="utf-8")
    return folder


def bleurt(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pipeline.scoring", *arguments]
    environment = os.environ | {"PYTHONPATH": str(tree)}
    return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)


def test_a_new_subcommand_is_one_file(tree: Path) -> None:
    done = bleurt(tree, "greet", "--name", "Ada")
    assert (done.stdout, done.stderr, done.returncode) == ("Hello, Ada.\n", "", 3)


def test_it_has_its_line_and_its_help(tree: Path) -> None:
    listed = bleurt(tree, "--help")
    assert "greet     greet somebody" in listed.stdout and listed.returncode == 0
    shown = bleurt(tree, "greet", "--help").stdout
    assert "bleurt greet --name Ada" in shown and "whom" in shown


def test_its_mistakes_are_answered_with_its_own_usage(tree: Path) -> None:
    done = bleurt(tree, "greet", "--name", "Ada", "--loud")
    assert (done.stdout, done.returncode) == ("", 2)
    assert done.stderr.endswith("bleurt greet: error: unrecognized arguments: --loud\n")


@pytest.mark.parametrize("name", sorted(summaries()))
def test_every_subcommand_keeps_the_contract(name: str) -> None:
    module = importlib.import_module(f"pipeline.scoring.cli.{name}")
    assert module.__doc__ is not None and module.__doc__.startswith(f"`bleurt {name}`: {summaries()[name]}.\n")
    assert callable(module.add_arguments) and callable(module.run)
