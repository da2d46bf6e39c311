"""A wheel carries the shipped metric and params.yaml, so that `bleurt` works wherever the package is installed."""

import subprocess
import sys
import tarfile
from pathlib import Path

from pipeline.core.modules import ROOT


def test_a_source_distribution_holds_the_metric(tmp_path: Path) -> None:
    command = [sys.executable, "setup.py", "--quiet", "egg_info", "--egg-base", str(tmp_path)]
    subprocess.run([*command, "sdist", "--formats", "tar", "--dist-dir", str(tmp_path)], cwd=ROOT, check=True)
    (archive,) = tmp_path.glob("*.tar")
    with tarfile.open(archive) as found:
        names = {name.partition("/")[2] for name in found.getnames()}
    metric = ROOT / "models" / "bundled" / "metric"
    assert {str(file.relative_to(ROOT)) for file in metric.iterdir()} | {"params.yaml"} <= names


def test_what_is_built_holds_the_metric(tmp_path: Path) -> None:
    command = [sys.executable, "setup.py", "--quiet", "egg_info", "--egg-base", str(tmp_path)]
    subprocess.run([*command, "build_py", "--build-lib", str(tmp_path / "lib")], cwd=ROOT, check=True)
    carried = tmp_path / "lib" / "pipeline" / "shipped" / "metric"
    files = {file.name for file in (ROOT / "models" / "bundled" / "metric").iterdir()}
    assert {file.name for file in carried.iterdir()} == files
    code = "from pipeline.core.models import locate; print(locate('bundled:metric'))"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "lib", check=True, capture_output=True, text=True
    )
    assert Path(found.stdout.strip()) == carried
    code = f"import site; site.addsitedir({str(tmp_path / 'lib')!r}); import bleurt.score_files as s; print(s.__file__)"
    import_path = tmp_path / "lib" / "pipeline" / "scoring" / "import_path" / "bleurt"
    found = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert Path(found.stdout.strip()) == import_path / "score_files.py"
    (tmp_path / "lib" / "bleurt").mkdir()  # as if the original were installed there
    (tmp_path / "lib" / "bleurt" / "__init__.py").write_text("", encoding="utf-8")
    code = code.replace("import bleurt.score_files as s", "import bleurt as s")
    found = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert Path(found.stdout.strip()) == tmp_path / "lib" / "bleurt" / "__init__.py"
    code = "from pipeline.scoring.contenders import params_file; print(params_file())"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "lib", check=True, capture_output=True, text=True
    )
    assert Path(found.stdout.strip()) == carried.parent / "params.yaml"
