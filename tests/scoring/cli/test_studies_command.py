"""`bleurt studies`: experiments from standard input or from a file; mistakes are one sentence."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline.scoring.__main__ import main


def experiment(name: str, seed: int, kendall: float) -> dict[str, Any]:
    """One revision as `dvc exp show --json` has it."""
    params = {"profile": "small", "variants": ["all"], "finetune": {"seed": seed}, "profiles": {"small": {}}}
    metrics = {"agreement": {"wmt17": {"adequacy": {"bleurt/all": {"kendall": kendall, "pearson": 0.7}}}}}
    data = {"params": {"params.yaml": {"data": params}}, "metrics": {"reports/metrics.json": {"data": metrics}}}
    return {"rev": "0123456789", "name": name, "data": data, "experiments": None}


SHOWN = json.dumps([experiment("one", 1, 0.5), experiment("two", 2, 0.52)])


@pytest.mark.parametrize("piped", [True, False])
def test_a_page_and_the_points_are_written(
    piped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = []
    if piped:
        monkeypatch.setattr(sys, "stdin", io.StringIO(SHOWN))
    else:
        (tmp_path / "shown.json").write_text(SHOWN, encoding="utf-8")
        given = ["--input", str(tmp_path / "shown.json")]
    assert main(["studies", *given, "--out", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "studies.html").read_text(encoding="utf-8").lstrip().startswith("<!doctype html>")
    lines = (tmp_path / "out" / "studies.csv").read_text(encoding="utf-8").splitlines()
    assert lines[1:] == ["finetune.seed,1,wmt17,adequacy,bleurt/all,50.0,70.0",
                         "finetune.seed,2,wmt17,adequacy,bleurt/all,52.0,70.0"]  # fmt: skip
    assert "2 experiments" in capsys.readouterr().out


def test_what_dvc_did_not_write_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "shown.json").write_text("{", encoding="utf-8")
    assert main(["studies", "--input", str(tmp_path / "shown.json"), "--out", str(tmp_path / "out")]) == 2
    assert main(["studies", "--input", str(tmp_path / "none.json"), "--out", str(tmp_path / "out")]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert "shown.json" in first and "none.json" in second
    for text, problem in (("{}", "is not what `dvc exp show --json` prints"), ("[]", "holds no finished experiment")):
        (tmp_path / "shown.json").write_text(text, encoding="utf-8")
        assert main(["studies", "--input", str(tmp_path / "shown.json"), "--out", str(tmp_path / "out")]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and error.startswith(f"error: {tmp_path}/shown.json: {problem}")
    assert not (tmp_path / "out").exists()
