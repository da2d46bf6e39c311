"""The README against the code: its tree, its make targets, and the corpus that it gives to copy."""

import re
from pathlib import Path

from ruamel.yaml import YAML

from pipeline.collect.corpus import Corpus
from pipeline.core.params import from_mapping

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TREE = re.search(r"## The tree\n\n```\n(.*?)```", README, re.DOTALL)


def entries() -> list[str]:
    """Paths of the tree's lines: a name that is indented belongs to the folder above it."""
    assert TREE is not None
    found, folder = [], ""
    for line in TREE.group(1).splitlines():
        name = line.split()[0]
        if not line.startswith(" "):
            folder = name if name.endswith("/") else ""
            found.append(name)
        else:
            found.append(folder + name)
    return found


def test_every_module_stands_in_the_tree_once() -> None:
    modules = [str(f.relative_to(ROOT)) for f in (ROOT / "pipeline").rglob("*.py") if f.name != "__init__.py"]
    named = [entry for entry in entries() if entry.startswith("pipeline/") and entry.endswith(".py")]
    assert sorted(named) == sorted(modules)


def test_everything_in_the_tree_exists() -> None:
    assert [entry for entry in entries() if not (ROOT / entry).exists()] == []


def test_every_line_says_what_the_file_is_for() -> None:
    assert TREE is not None
    assert [line for line in TREE.group(1).splitlines() if len(line.split()) < 2] == []


def test_make_targets_that_the_readme_names_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:^|`|\| )make (\w+)", README, re.MULTILINE))
    assert {"repro", "test"} <= named
    assert {name for name in named if not re.search(rf"^{name}:", makefile, re.MULTILINE)} == set()


def test_the_corpus_to_copy_is_one_that_collect_takes() -> None:
    example = re.search(r"```yaml\n(.*?)```", README, re.DOTALL)
    assert example is not None
    (entry,) = YAML(typ="safe").load(example[1])
    corpus = from_mapping(entry, Corpus, "collect.corpora[0]")
    assert (corpus.layout.value, corpus.parts[0].path) == ("own", "data/own/ratings.csv")
