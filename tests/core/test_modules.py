"""The import closure: own modules only, through other modules, and a fingerprint that follows the code."""

from pathlib import Path

import pytest

from pipeline.core import modules


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "pipeline"
    folder.mkdir()
    (folder / "__init__.py").write_text('"""Package."""\n')
    (folder / "a.py").write_text("import os\nfrom pipeline import b\n")
    (folder / "b.py").write_text("def later():\n    from pipeline.c import value\n    return value\n")
    (folder / "c.py").write_text("value = 1\n")
    (folder / "d.py").write_text("value = 2\n")
    monkeypatch.setattr(modules, "ROOT", tmp_path)
    modules.import_closure.cache_clear()
    modules.code_fingerprint.cache_clear()
    yield folder
    modules.import_closure.cache_clear()
    modules.code_fingerprint.cache_clear()


def test_imports_are_followed_also_inside_functions(code: Path) -> None:
    assert [file.name for file in modules.import_closure("pipeline.a")] == ["a.py", "b.py", "c.py"]
    assert [file.name for file in modules.import_closure("pipeline.d")] == ["d.py"]


def test_fingerprint_changes_with_any_module_of_the_closure_and_no_other(code: Path) -> None:
    before = modules.code_fingerprint("pipeline.a")
    (code / "d.py").write_text("value = 3\n")
    modules.code_fingerprint.cache_clear()
    assert modules.code_fingerprint("pipeline.a") == before
    (code / "c.py").write_text("value = 4\n")
    modules.code_fingerprint.cache_clear()
    assert modules.code_fingerprint("pipeline.a") != before
