"""Commands of git and DVC in a project of a test, which know none of the user's credentials."""

import os
import subprocess
import sys
from pathlib import Path

from pipeline.core.modules import ROOT


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command in `folder`, with credentials that moto accepts, and without the user's own."""
    own = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, **own, "PATH": path, "PYTHONPATH": str(ROOT), "DVC_NO_ANALYTICS": "1"}
    return subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


def done(folder: Path, *arguments: str) -> str:
    found = run(folder, *arguments)
    assert found.returncode == 0, f"{arguments}\n{found.stdout[-2000:]}\n{found.stderr[-2000:]}"
    return found.stdout
