"""What pyproject.toml cannot say: an installed wheel carries the metric and params.yaml, which lie elsewhere."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

METRIC = Path("models/bundled/metric")
PARAMS = Path("params.yaml")


class BuildWithMetric(build_py):
    """Copies both to pipeline/shipped of what is built; an editable installation needs no copy."""

    def run(self) -> None:
        """Build the packages, then copy."""
        super().run()
        if not self.editable_mode:
            shipped = Path(self.build_lib) / "pipeline" / "shipped"
            shutil.copytree(METRIC, shipped / METRIC.name, dirs_exist_ok=True)
            shutil.copyfile(PARAMS, shipped / PARAMS.name)


setup(cmdclass={"build_py": BuildWithMetric})
