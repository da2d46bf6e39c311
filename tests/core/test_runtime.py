"""The engine's precision: bf16 in training where a CPU computes in it, never in scoring on a CPU."""

import os

import pytest
import torch

from pipeline.core import runtime
from pipeline.core.errors import ParamsError


@pytest.mark.parametrize(
    ("found", "training", "precision"),
    [
        ({"avx512_bf16": True}, True, torch.bfloat16),
        ({"amx_bf16": True}, True, torch.bfloat16),
        ({"avx512_bf16": True}, False, torch.float32),
        ({"avx2": True}, True, torch.float32),
        ({}, True, torch.float32),
    ],
)
def test_a_cpu_uses_bf16_in_training_alone(
    found: dict[str, bool], training: bool, precision: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BLEURT_DEVICE", "cpu")
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: found)
    with runtime.autocast(training=training):
        assert torch.nn.Linear(4, 4)(torch.ones(2, 4)).dtype == precision


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine with two GPUs."""
    for name in ("BLEURT_DEVICE", "BLEURT_WORKERS", "LOCAL_RANK", runtime.WORKER):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    return monkeypatch


def test_a_process_of_torchrun_and_a_worker_have_their_own_gpu(gpus: pytest.MonkeyPatch) -> None:
    assert runtime.device() == "cuda"
    gpus.setenv(runtime.WORKER, "3")
    assert runtime.device() == "cuda:1"
    gpus.setenv("LOCAL_RANK", "0")
    assert runtime.device() == "cuda:0"
    gpus.setenv("BLEURT_DEVICE", "cuda:1")
    assert runtime.device() == "cuda:1"
    gpus.setenv("BLEURT_DEVICE", "cpu")
    assert runtime.device() == "cpu"


def test_torchrun_with_more_processes_than_gpus_is_refused(gpus: pytest.MonkeyPatch) -> None:
    gpus.setenv("LOCAL_RANK", "2")
    with pytest.raises(ParamsError, match="more processes than the 2 GPUs"):
        runtime.device()


def test_there_is_one_worker_a_gpu_or_else_one_a_core(gpus: pytest.MonkeyPatch) -> None:
    cores = len(os.sched_getaffinity(0))
    assert (runtime.workers(), runtime.workers(on_device=False)) == (2, cores)
    gpus.setenv("BLEURT_DEVICE", "cuda:1")
    assert runtime.workers() == 1
    gpus.setenv("BLEURT_DEVICE", "cpu")
    assert runtime.workers() == cores
    gpus.setenv("BLEURT_WORKERS", "5")
    assert runtime.workers() == runtime.workers(on_device=False) == 5


@pytest.mark.parametrize("wanted", ["banana", "cuda:x", "cpu:", "meta"])
def test_a_device_that_is_none_is_refused(wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLEURT_DEVICE", wanted)
    with pytest.raises(ParamsError, match=rf"^BLEURT_DEVICE must be cpu, cuda, cuda:NUMBER or mps, not '{wanted}'\.$"):
        runtime.device()


def test_a_device_that_is_not_here_is_refused(gpus: pytest.MonkeyPatch) -> None:
    gpus.setenv("BLEURT_DEVICE", "cuda:2")
    with pytest.raises(ParamsError, match=r"^BLEURT_DEVICE is 'cuda:2', which torch does not find on this machine\.$"):
        runtime.device()
    gpus.setattr(torch.cuda, "is_available", lambda: False)
    gpus.setenv("BLEURT_DEVICE", "cuda")
    with pytest.raises(ParamsError, match="which torch does not find"):
        runtime.device()
