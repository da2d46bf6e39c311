"""The engine's precision: bf16 in training where a CPU computes in it, never in scoring on a CPU."""

import pytest
import torch

from pipeline.core import runtime


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
