"""What pyproject.toml cannot say: what an installation holds besides `pipeline`.

A wheel carries the bundled metric and params.yaml, which lie elsewhere. A wheel and an editable installation both make
`from bleurt import score` work, the import path of the original BLEURT, by pipeline/scoring/import_path. That folder
comes after site-packages, so the original, where it is installed, stays what `import bleurt` finds: nothing of it is
replaced. The build says so (pip -v shows it), and so does `bleurt --version`.
"""

import importlib.util
import shutil
import sys
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

METRIC = Path("models/bundled/metric")
PARAMS = Path("params.yaml")
IMPORT_PATH = "pipeline/scoring/import_path"
EDITABLE = "editable_wheel" in sys.argv


class BuildWithMetric(build_py):
    """Copies metric and params to pipeline/shipped of what is built, and adds the import path at its end."""

    def run(self) -> None:
        """Build the packages, then copy."""
        super().run()
        if not self.editable_mode:
            shipped = Path(self.build_lib) / "pipeline" / "shipped"
            shutil.copytree(METRIC, shipped / METRIC.name, dirs_exist_ok=True)
            shutil.copyfile(PARAMS, shipped / PARAMS.name)
            # site reads it last, for its name, and takes it relative to site-packages
            (Path(self.build_lib) / "zz-bleurt-pipeline.pth").write_text(f"{IMPORT_PATH}\n", encoding="utf-8")


found = importlib.util.find_spec("bleurt")
if found is not None and IMPORT_PATH not in str(found.origin):
    print(f"import bleurt: the original BLEURT is installed ({found.origin}) and stays what this import finds.")

setup(
    cmdclass={"build_py": BuildWithMetric},
    # an editable installation finds packages by name, behind all of site-packages
    packages=[*find_packages(include=["pipeline*"]), *(["bleurt"] if EDITABLE else [])],
    package_dir={"bleurt": f"{IMPORT_PATH}/bleurt"} if EDITABLE else {},
)
