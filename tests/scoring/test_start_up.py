"""What a command imports: help and version neither torch nor transformers, a score no compiler; and the same score."""

import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.scoring.scorer import BleurtScorer

CHILD = """
import sys
from pipeline.scoring import __main__
sys.argv = ["bleurt", *sys.argv[1:]]
try:
    __main__.main()
except SystemExit:
    pass
print("imported:", *(name for name in WATCHED if name in sys.modules), file=sys.stderr)
"""


def imported(watched: list[str], *arguments: str) -> tuple[str, list[str]]:
    """Standard output of `bleurt`, and which of the `watched` modules its process imported."""
    child = CHILD.replace("WATCHED", repr(watched))
    done = subprocess.run([sys.executable, "-c", child, *arguments], capture_output=True, text=True, check=True)
    return done.stdout, done.stderr.rpartition("imported:")[2].split()


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_and_version_import_no_library(flag: str) -> None:
    out, found = imported(["torch", "transformers", "numpy", "pandas", "pyarrow"], flag)
    assert "bleurt" in out
    assert found == []


def test_a_score_imports_no_compiler_and_is_that_of_the_scorer(checkpoint: Path, tmp_path: Path) -> None:
    file = tmp_path / "one.txt"
    file.write_text("the cat sat\n", encoding="utf-8")
    heavy = ["scipy", "accelerate", "torch._dynamo.convert_frame", "torch.distributed.tensor", "pandas", "datasets"]
    given = ["score", "-r", str(file), "-t", str(file), "-c", str(checkpoint), "--device", "cpu", "--quiet"]
    out, found = imported([*heavy, "transformers"], *given)
    assert found == ["transformers"]
    expected = BleurtScorer(checkpoint, device="cpu").score(["the cat sat"], ["the cat sat"])
    assert float(out) == pytest.approx(expected[0], abs=1e-5)
