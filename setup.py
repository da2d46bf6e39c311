"""What pyproject.toml cannot say: an installed wheel carries the metric, which lies outside the package."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

METRIC = Path("models/bundled/metric")


class BuildWithMetric(build_py):
    """Copies the shipped metric to pipeline/shipped/metric of what is built; an editable installation needs no copy."""

    def run(self) -> None:
        """Build the packages, then copy."""
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / "pipeline" / "shipped" / METRIC.name
            shutil.copytree(METRIC, target, dirs_exist_ok=True)


setup(cmdclass={"build_py": BuildWithMetric})
