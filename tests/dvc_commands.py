"""Commands of git and DVC in a project of a test, which know none of the user's credentials."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from pipeline.core.modules import ROOT


def run(folder: Path, *arguments: str, seconds: float = 120.0) -> subprocess.CompletedProcess[str]:
    """A command in `folder`, with credentials that moto accepts, and without the user's own.

    A command that runs longer than `seconds` is killed and raises `subprocess.TimeoutExpired`.
    Its output goes through a file: a worker that `dvc queue start` leaves behind would hold a pipe open for ever.
    """
    own = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, **own, "PATH": path, "PYTHONPATH": str(ROOT), "DVC_NO_ANALYTICS": "1"}
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        found = subprocess.run(
            arguments, cwd=folder, env=environment, stdout=out, stderr=err, text=True, timeout=seconds
        )
        for stream in (out, err):
            stream.seek(0)
        return subprocess.CompletedProcess(arguments, found.returncode, out.read(), err.read())


def done(folder: Path, *arguments: str) -> str:
    found = run(folder, *arguments)
    assert found.returncode == 0, f"{arguments}\n{found.stdout[-2000:]}\n{found.stderr[-2000:]}"
    return found.stdout
