"""A wheel carries the shipped metric, so that `bleurt` scores wherever the package is installed."""

import subprocess
import sys
from pathlib import Path

from pipeline.core.closure import ROOT


def test_what_is_built_holds_the_metric(tmp_path: Path) -> None:
    command = [sys.executable, "setup.py", "--quiet", "egg_info", "--egg-base", str(tmp_path)]
    subprocess.run([*command, "build_py", "--build-lib", str(tmp_path / "lib")], cwd=ROOT, check=True)
    carried = tmp_path / "lib" / "pipeline" / "shipped" / "metric"
    files = {file.name for file in (ROOT / "models" / "bundled" / "metric").iterdir()}
    assert {file.name for file in carried.iterdir()} == files
    code = "from pipeline.model.locate import locate; print(locate('bundled:metric'))"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "lib", check=True, capture_output=True, text=True
    )
    assert Path(found.stdout.strip()) == carried
