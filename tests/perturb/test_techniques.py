"""Techniques are found by name: a new module and its section in params.yaml are all that a new one needs."""

import shutil
from pathlib import Path

import pytest
from tiny_project import ROOT, run

from pipeline.core.errors import ParamsError
from pipeline.core.modules import import_closure, load_all, names
from pipeline.core.params import part_names
from pipeline.core.records import PAIRS, SEGMENTS
from pipeline.core.shards import read_rows, shard_name, table_of, write_shard
from pipeline.perturb.__main__ import make_job
from pipeline.perturb.pairs import TECHNIQUES

TOY = '''"""Shouting: a toy."""

from pipeline.core.params import params
from pipeline.perturb.pairs import Attempt, Made


@params
class Params:
    mark: str


def needs(params):
    return ()


def make(shard, params):
    return Made([Attempt(s.id, s.text, "loud", "toy", s.text.upper() + params.mark) for s in shard.segments])
'''

PARAMS = """profile: p
profiles: {p: {perturb: {toy: {mark: "!"}}}}
perturb:
  seed: 1
  toy: {}
  word_drop: {share: 1.0}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the code with a toy technique, one shard of segments, and params.yaml."""
    shutil.copytree(ROOT / "pipeline", tmp_path / "pipeline", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "pipeline" / "perturb" / "techniques" / "toy.py").write_text(TOY)
    rows = [{"segment_id": f"1-{i}", "title": "T", "text": text} for i, text in enumerate(["the cat", "a dog ran"])]
    write_shard(tmp_path / "segments" / shard_name(0), table_of(rows, SEGMENTS))
    (tmp_path / "params.yaml").write_text(PARAMS)
    return tmp_path


def perturb(project: Path) -> str:
    command = ["-m", "pipeline.perturb", "--params", "params.yaml", "--segments", "segments", "--out", "out"]
    return run(project, *command).stdout


def test_a_module_and_its_section_add_a_technique(project: Path) -> None:
    assert "perturb: 4 pairs of 4 attempts" in perturb(project)
    rows = {row["pair_id"]: row for row in read_rows(project / "out", PAIRS)}
    assert list(rows) == ["1-0/loud", "1-1/loud", "1-0/loud/drop", "1-1/loud/drop"]
    assert [rows[f"1-{i}/loud"]["candidate"] for i in (0, 1)] == ["THE CAT!", "A DOG RAN!"]
    assert {row["technique"] for row in rows.values()} == {"toy"}
    assert rows["1-1/loud/drop"]["parent_id"] == "1-1/loud"


def test_the_code_of_a_technique_is_part_of_the_fingerprint_of_its_shards(project: Path) -> None:
    show = (
        "from pathlib import Path; from pipeline.perturb.__main__ import make_job; "
        "print(make_job(Path('params.yaml'), Path('segments')).extra)"
    )
    before = run(project, "-c", show).stdout.split()
    (project / "pipeline" / "perturb" / "techniques" / "toy.py").write_text(TOY.replace("upper", "title"))
    after = run(project, "-c", show).stdout.split()
    assert [one == other for one, other in zip(before, after, strict=True)] == [False, True]


def test_no_technique_is_imported_by_the_stage_or_by_another_technique() -> None:
    folder = ROOT / "pipeline" / "perturb" / "techniques"
    assert [file for file in import_closure("pipeline.perturb.__main__") if file.parent == folder] == []
    for name in names(TECHNIQUES):
        own = import_closure(f"{TECHNIQUES}.{name}")
        assert [file for file in own if file.parent == folder] == [folder / f"{name}.py"]


def test_every_technique_keeps_the_contract_and_has_its_section() -> None:
    members = load_all(TECHNIQUES)
    assert set(members) == set(part_names(ROOT / "params.yaml", "perturb"))
    for name, member in members.items():
        assert callable(member.needs) and callable(member.make) and isinstance(member.Params, type), name


def test_an_unknown_technique_is_named(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text("profile: p\nprofiles: {p: {}}\nperturb: {seed: 1, spam: {}}\n")
    known = "backtranslate, mask_fill, system_outputs, translate, word_drop"
    with pytest.raises(ParamsError, match=rf"params\.yaml: perturb: must be one of {known}, not 'spam'\.$"):
        make_job(tmp_path / "params.yaml", tmp_path)
