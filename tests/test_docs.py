"""README and docs against the code: every command runs here or says why not; files, folders and links exist."""

import io
import itertools
import re
import shlex
import sys
from pathlib import Path

import pytest
from dvc.utils.hydra import apply_overrides
from ruamel.yaml import YAML
from stage_params import load_all_params

from pipeline.core import modules
from pipeline.core.modules import ROOT
from pipeline.scoring.__main__ import main

FILES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
PAGES = {file.name: file.read_text(encoding="utf-8") for file in FILES}
README = PAGES["README.md"]

NOT_RUN = {
    "make": "CI runs repro, test and check; the others take minutes to hours",
    "torchrun": "tests/test_end_to_end.py runs it on a tiny project",
    "dvc commit": "belongs to torchrun",
    "dvc exp show": "shows experiments, of which a fresh clone has none",
    "dvc exp run": "trains for minutes; its overrides are applied to params.yaml and every stage's params are loaded",
    "dvc exp show --json | bleurt studies": "tests/report/test_studies.py runs it on experiments",
    "bleurt bench": "measures for minutes; its own test runs it on a tiny model",
    "bleurt calibrate": "writes into the checkpoint's folder; tests/scoring/test_calibration.py runs it",
    "bleurt convert": "needs a checkpoint of the original; tests/scoring/test_originals.py runs it",
    "bleurt kernels": "measures for minutes; its own test runs it on tiny models",
    "bleurt selftest": "tests/bundled/test_shipped_metric.py runs it",
}
"""Beginnings of commands that do not run here, each with the reason."""

TEXTS = {
    "ref.txt": "The bank raised its rates.\nA cat sat on the mat.\n",
    "a.txt": "The bank increased its rates.\nA cat was sitting on the mat.\n",
    "b.txt": "The bank cut its rates.\nA dog ran.\n",
    "pairs.jsonl": '{"reference": "A cat sat.", "candidate": "The cat sat.", "id": 7}\n',
    "my.csv": "reference,candidate,score\nA cat sat.,A cat sat.,98\nA dog ran.,A cat sat.,5\nIt rained.,It rains.,80\n",
}
SAME = {"system.txt": "a.txt", "base.txt": "b.txt", "r.txt": "ref.txt", "c.txt": "a.txt"}
CHECKPOINTS = {"DIR": "bundled:metric", "BLEURT-20": "bundled:metric", "models/finetune/all": "bundled:metric"}


def commands() -> list[str]:
    """The commands of all pages: lines of unnamed code blocks that begin with a program's name, comments cut off."""
    found = []
    for text in PAGES.values():
        for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
            if language:
                continue
            lines = re.sub(r"\\\n\s*", "", block).splitlines()
            found += [re.split(r"\s+# ", line)[0].strip() for line in lines if line.strip()]
    programs = ("bleurt", "dvc", "make", "python", "torchrun", "paste")
    return list(dict.fromkeys(line for line in found if line.split()[0] in programs))


def is_run(command: str) -> bool:
    return not any(command.startswith(start) for start in NOT_RUN)


def overrides(command: str) -> list[list[str]]:
    """Values of -S of a `dvc exp run`, one list for each experiment that it queues."""
    words = shlex.split(command)
    settings = [words[i + 1] for i, word in enumerate(words) if word == "-S"]
    choices = []
    for setting in settings:
        key, equals, value = setting.partition("=")  # without it: ~key, which takes a key away
        values = [value] if value.startswith(("[", "{")) else value.split(",")
        choices.append([f"{key}{equals}{one}" for one in values])
    return [list(one) for one in itertools.product(*choices)]


EXPERIMENTS = [command for command in commands() if command.startswith("dvc exp run")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    for name, other in SAME.items():
        (tmp_path / name).write_text(TEXTS[other], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_pages_hold_commands_of_every_kind() -> None:
    programs = {command.split()[0] for command in commands()}
    assert programs == {"bleurt", "dvc", "make", "torchrun", "paste"}
    assert {start for start in NOT_RUN if not any(command.startswith(start) for command in commands())} == set()


@pytest.mark.parametrize("command", [command for command in commands() if is_run(command)])
def test_a_command_of_the_pages_runs(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, checkpoint in CHECKPOINTS.items():
        command = command.replace(name, checkpoint)
    if command.startswith("paste"):
        lines = zip(TEXTS["ref.txt"].splitlines(), TEXTS["a.txt"].splitlines(), strict=True)
        stream = io.TextIOWrapper(io.BytesIO("".join(f"{z}\t{c}\n" for z, c in lines).encode()), encoding="utf-8")
        monkeypatch.setattr(sys, "stdin", stream)
        command = command.split("|")[1]
    words = shlex.split(command.split(" > ")[0])
    assert words[0] == "bleurt"
    assert main(words[1:]) == 0
    files = [word for flag, word in itertools.pairwise(words) if flag in ("-scores_file", "--html")]
    shown = capsys.readouterr().out + "".join(Path(file).read_text(encoding="utf-8") for file in files)
    assert shown.strip()


@pytest.mark.parametrize("command", EXPERIMENTS)
def test_an_experiment_of_the_pages_sets_what_exists(command: str, tmp_path: Path) -> None:
    for settings in overrides(command):
        file = tmp_path / "params.yaml"
        file.write_text((ROOT / "params.yaml").read_text(encoding="utf-8"), encoding="utf-8")
        apply_overrides(file, settings)
        load_all_params(file)
    assert overrides(command)[0]


@pytest.mark.parametrize("page", sorted(page for page in PAGES if "```python" in PAGES[page]))
def test_python_of_the_pages_runs(page: str) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGES[page], re.DOTALL | re.MULTILINE)
    assert blocks
    for block in blocks:
        exec(block, {})


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 180


def test_make_targets_that_the_pages_name_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:^|`|\| )make ([\w-]+)", "\n".join(PAGES.values()), re.MULTILINE))
    assert {"repro", "test"} <= named
    assert {name for name in named if not re.search(rf"^{name}:", makefile, re.MULTILINE)} == set()


def test_every_package_stands_in_the_readme() -> None:
    packages = {folder.name for folder in (ROOT / "pipeline").iterdir() if (folder / "__init__.py").is_file()}
    stages = {"adapt", "perturb", "label", "pretrain", "collect", "grade", "finetune", "evaluate"}
    assert {name for name in packages - stages if f"`pipeline/{name}/`" not in README} == set()
    assert {stage for stage in stages if not re.search(rf"^ .*\b{stage}\b", README, re.MULTILINE)} == set()


@pytest.mark.parametrize("page", sorted(PAGES))
def test_links_lead_somewhere(page: str) -> None:
    here = ROOT if page == "README.md" else ROOT / "docs"
    links = [link for link in re.findall(r"\]\(([^)#]+)", PAGES[page]) if not link.startswith("http")]
    assert [link for link in links if not (here / link).exists()] == []


@pytest.mark.parametrize("page", sorted(PAGES))
def test_paths_in_code_exist(page: str) -> None:
    """Committed paths between backticks: folders that end in a slash, and modules."""
    ours = "pipeline|docs|tests|data/sample|data/challenge|data/facts|data/own|models/bundled|reports/evidence"
    paths = re.findall(rf"`((?:{ours})/[\w./-]*)`", PAGES[page])
    named = [path for path in paths if not path.endswith("/NAME")]
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_page_of_members_names_every_folder_of_them() -> None:
    for kind in ("label.signals", "perturb.techniques", "evaluate.metrics", "collect.layouts", "scoring.cli"):
        assert f"`pipeline/{kind.replace('.', '/')}/`" in PAGES["pipeline.md"]
        assert modules.names(f"pipeline.{kind}")


def test_the_layouts_that_the_page_names_are_those_that_there_are() -> None:
    _, _, named = PAGES["data.md"].partition("Layouts, one module each")
    assert set(modules.names("pipeline.collect.layouts")) <= set(re.findall(r"`(\w+)`", named.split("\n\n")[0]))


def test_the_corpus_to_copy_is_one_that_collect_takes(tmp_path: Path) -> None:
    example = re.search(r"```yaml\n(.*?)```", PAGES["data.md"], re.DOTALL)
    assert example is not None
    document = YAML(typ="safe").load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    document["profiles"]["embedded"]["collect"]["corpora"] += YAML(typ="safe").load(example[1])
    file = tmp_path / "params.yaml"
    with file.open("w", encoding="utf-8") as stream:
        YAML().dump(document, stream)
    corpus = load_all_params(file)["collect"].corpora[-1]
    assert (corpus.name, corpus.layout, corpus.parts[0].path) == ("mine", "own", "data/own/ratings.csv")
