"""Linear layers by oneDNN: the same numbers and gradients as torch's own, and who chooses the library."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.nn.functional import linear

from pipeline.core import kernels
from pipeline.core.errors import ParamsError


@pytest.fixture(params=kernels.LIBRARIES)
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("BLEURT_KERNELS", request.param)
    return str(request.param)


def network() -> torch.nn.Sequential:
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Embedding(9, 24), torch.nn.Linear(24, 40), torch.nn.GELU(), torch.nn.Linear(40, 3, bias=False)
    )


IDS = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]])


def gradients() -> tuple[torch.Tensor, list[torch.Tensor]]:
    model = network()
    found = model(IDS)
    found.square().sum().backward()
    return found.detach(), [weight.grad for weight in model.parameters() if weight.grad is not None]


def test_outputs_and_gradients_are_those_of_plain_layers(library: str) -> None:
    expected, wanted = gradients()
    with kernels.linear_layers():
        found, got = gradients()
    assert len(got) == len(wanted) == 4
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_gradients_agree_with_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    """A central difference of the loss along a random direction, for the rows, the weight and the bias."""
    monkeypatch.setenv("BLEURT_KERNELS", "onednn")
    torch.manual_seed(2)
    parts = [torch.randn(2, 5, 6), torch.randn(4, 6), torch.randn(4)]
    target = torch.randn(2, 5, 4)
    for place in range(3):
        ways = [part.clone().requires_grad_(i == place) for i, part in enumerate(parts)]
        with kernels.linear_layers():
            loss = (linear(*ways) * target).sum()
        loss.backward()
        direction = torch.randn_like(parts[place])
        moved = [[*parts[:place], parts[place] + sign * direction, *parts[place + 1 :]] for sign in (1, -1)]
        up, down = ((linear(*one).double() * target).sum() for one in moved)
        assert float((ways[place].grad * direction).sum()) == pytest.approx(float((up - down) / 2), rel=1e-4, abs=1e-3)


def test_only_onednn_replaces_layers_and_only_inside(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, ...]] = []
    real = kernels._product
    monkeypatch.setattr(kernels, "_product", lambda *given: calls.append(tuple(given[0].shape)) or real(*given))
    model = network()
    model(IDS)
    with kernels.linear_layers():
        model(IDS)
        linear(torch.ones(2, 2, dtype=torch.float64), torch.ones(2, 2, dtype=torch.float64))
        linear(torch.ones(2), torch.ones(2, 2))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert model(IDS).dtype is torch.bfloat16
    model(IDS)
    assert calls == ([(2, 4, 24), (2, 4, 40)] if library == "onednn" else [])


def test_a_packed_model_computes_the_same(library: str) -> None:
    model = network()
    with torch.inference_mode():
        expected = model(IDS)
        found = kernels.packed(model)(IDS)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert (type(model[1]) is torch.nn.Linear) == (library == "mkl")


@pytest.mark.parametrize("by_onednn", [True, False])
def test_bf16_rounds_weights_and_inputs(monkeypatch: pytest.MonkeyPatch, by_onednn: bool) -> None:
    """1.00390625 is 1 + 1/256: bf16 has 8 bits, so it becomes 1 (ties to even) on each side."""
    if by_onednn and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        pytest.skip("oneDNN has no bf16 on this processor")
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: by_onednn)
    model = torch.nn.Sequential(torch.nn.Linear(2, 1))
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[1.00390625, 2.0]]))
        model[0].bias.zero_()
    packed = kernels.packed(model, "bf16")
    with torch.inference_mode():
        found = packed(torch.tensor([[1.00390625, 3.0], [0.5, 0.0]]))
    assert packed[0].laid_out is by_onednn
    assert found.dtype is torch.bfloat16 and found.tolist() == [[7.0], [0.5]]


def test_an_unknown_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLEURT_KERNELS", "blas")
    with pytest.raises(ParamsError, match=r"^BLEURT_KERNELS must be mkl or onednn, not 'blas'\.$"):
        kernels.library()


@pytest.mark.parametrize(
    ("vendor", "avx512", "seconds", "expected"),
    [
        ("AuthenticAMD", True, {}, "onednn"),
        ("AuthenticAMD", False, {}, "mkl"),
        ("GenuineIntel", True, {"mkl": 1.0, "onednn": 0.9}, "mkl"),
        ("HygonGenuine", False, {"mkl": 1.0, "onednn": 0.5}, "onednn"),
    ],
)
def test_amd_is_chosen_for_by_its_instructions_and_others_by_one_measurement(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    vendor: str,
    avx512: bool,
    seconds: dict[str, float],
    expected: str,
) -> None:
    calls: list[str] = []

    def measured(way: Callable[[], object]) -> float:
        calls.append("onednn" if len(calls) % 2 else "mkl")
        return seconds[calls[-1]]

    monkeypatch.delenv("BLEURT_KERNELS", raising=False)
    monkeypatch.setattr(kernels, "_vendor", lambda: vendor)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_f": avx512})
    monkeypatch.setattr(kernels, "_seconds", measured)
    monkeypatch.setattr(kernels, "store", lambda: tmp_path / "packages")
    try:
        for _ in range(2):  # the second time from the file
            kernels._quicker.cache_clear()
            assert kernels.library() == expected
    finally:
        kernels._quicker.cache_clear()
    assert len(calls) == (2 * kernels.ROUNDS if seconds else 0)
    if seconds:
        assert list(json.loads((tmp_path / kernels.FASTEST).read_text()).values()) == [expected]
