"""Windows line ends and a byte order mark: params.yaml is read alike here and by DVC, and git changes no file."""

import shutil
import subprocess
from pathlib import Path

import pytest
from dvc.utils.hydra import apply_overrides
from dvc.utils.serialize import load_yaml
from stage_params import load_all_params

from pipeline.core.modules import ROOT

TEXT = (ROOT / "params.yaml").read_bytes()
CRLF = TEXT.replace(b"\n", b"\r\n")
BOM = b"\xef\xbb\xbf"


@pytest.mark.parametrize("written", [CRLF, BOM + TEXT, BOM + CRLF], ids=["crlf", "bom", "both"])
def test_params_are_read_alike_by_the_stages_and_by_dvc(tmp_path: Path, written: bytes) -> None:
    plain, file = tmp_path / "plain.yaml", tmp_path / "params.yaml"
    plain.write_bytes(TEXT)
    file.write_bytes(written)
    assert load_yaml(str(file)) == load_yaml(str(plain))
    assert str(load_all_params(file)) == str(load_all_params(plain))
    for one in (file, plain):
        apply_overrides(one, ["pretrain.batch_pairs=7"])
    assert load_all_params(file)["pretrain"].batch_pairs == 7
    assert str(load_all_params(file)) == str(load_all_params(plain))


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_checkout_on_windows_has_the_committed_bytes(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "core.autocrlf=true", *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q", ".")
    for name in (".gitattributes", "params.yaml", "data/sample/ratings.tsv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    git("add", ".")
    for name in ("params.yaml", "data/sample/ratings.tsv"):
        (tmp_path / name).unlink()
    git("checkout", "--", ".")
    for name in ("params.yaml", "data/sample/ratings.tsv"):
        assert (tmp_path / name).read_bytes() == (ROOT / name).read_bytes()
