"""Several processes: the bytes of one, the model with plain weights for everything else, and what is refused."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from pipeline.core import kernels
from pipeline.core.errors import ParamsError
from pipeline.scoring.__main__ import main
from pipeline.scoring.scorer import BleurtScorer

WORDS = ["the", "cat", "sat", "on", "the", "mat", "a", "dog", "ran", "small", "red", "house", "bird", "paris", "was"]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """References and two systems, of 60 segments of many lengths."""
    texts = [[" ".join(WORDS[(i * step + j) % 15] for j in range(1 + i % 17)) for i in range(60)] for step in (1, 2, 4)]
    names = [tmp_path / name for name in ("reference.txt", "a.txt", "b.txt")]
    for name, lines in zip(names, texts, strict=True):
        name.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [str(name) for name in names]


@pytest.fixture
def one_thread() -> Iterator[None]:
    """One thread of torch for each process: another number adds up in another order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
def test_two_processes_write_the_bytes_of_one(checkpoint: Path, files: list[str], tmp_path: Path) -> None:
    written = []
    for count in ("1", "2"):
        out = tmp_path / f"{count}.txt"
        given = ["score", "-r", files[0], "-t", *files[1:], "-c", str(checkpoint), "--device", "cpu", "--width", "9"]
        assert main([*given, "--batch_tokens", "64", "--processes", count, "--scores_file", str(out)]) == 0
        written.append(out.read_bytes())
    assert written[0] == written[1]
    assert written[0].count(b"\n") == 62


def test_processes_share_the_cpu_only(checkpoint: Path) -> None:
    with pytest.raises(ParamsError, match="processes: 2 share one CPU"):
        BleurtScorer(checkpoint, device=["cpu", "cpu"], processes=2)
    with pytest.raises(ParamsError, match="processes: must be at least 1, not 0"):
        BleurtScorer(checkpoint, device="cpu", processes=0)


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch has no oneDNN here")
def test_packing_belongs_to_the_scorer_alone(
    checkpoint: Path, references: list[str], candidates: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks for the model gets one that learns and can be saved."""
    monkeypatch.setenv("BLEURT_KERNELS", "onednn")
    scorer = BleurtScorer(checkpoint, device="cpu")
    assert scorer._replicas.packed
    names = {name for name, _ in scorer.model.named_parameters()}
    assert any("attention" in name and name.endswith("weight") for name in names)
    monkeypatch.setenv("BLEURT_KERNELS", "mkl")
    plain = BleurtScorer(checkpoint, device="cpu")
    assert scorer.score(references, candidates) == pytest.approx(plain.score(references, candidates), abs=1e-5)


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_the_signature_names_the_precision(checkpoint: Path, precision: str) -> None:
    able: Callable[[], bool] = kernels.has_int8 if precision == "int8" else kernels.has_bf16
    if not able():
        pytest.skip(f"this processor has no kernels for {precision}")
    assert f"|precision:{precision}|" in str(BleurtScorer(checkpoint, device="cpu", precision=precision).signature())
