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
    code = "from pipeline.scoring.contenders import params_file; print(params_file())"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "lib", check=True, capture_output=True, text=True
    )
    assert Path(found.stdout.strip()) == carried.parent / "params.yaml"
