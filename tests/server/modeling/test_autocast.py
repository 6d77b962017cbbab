"""Products in bfloat16, and which kernels compute attention under them."""

from __future__ import annotations

import platform
from typing import Any

import pytest
import torch

from pocketquery.server.modeling import autocast
from pocketquery.server.modeling.autocast import bfloat16_products, has_bfloat16

CPU = torch.device("cpu")


def enabled() -> dict[str, bool]:
    """What of scaled_dot_product_attention's kernels may be taken now."""
    cuda: Any = torch.backends.cuda
    return {
        "cudnn": cuda.cudnn_sdp_enabled(),
        "flash": cuda.flash_sdp_enabled(),
        "efficient": cuda.mem_efficient_sdp_enabled(),
        "math": cuda.math_sdp_enabled(),
    }


@pytest.fixture
def had(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor that has products in bfloat16, whichever runs this."""
    monkeypatch.setattr(autocast, "has_bfloat16", lambda device: True)


@pytest.mark.usefixtures("had")
def test_products_are_in_bfloat16_where_that_is_asked_for() -> None:
    left, right = torch.rand(3, 4), torch.rand(4, 2)
    with bfloat16_products(CPU):
        assert (left @ right).dtype == torch.bfloat16
    with bfloat16_products(CPU, enabled=False):
        assert (left @ right).dtype == torch.float32


@pytest.mark.parametrize(
    ("device", "gradients", "fused"),
    [("cuda", True, True), ("cuda", False, True), ("cpu", True, False), ("cpu", False, True)],
)
@pytest.mark.filterwarnings("ignore:CUDA is not available")
@pytest.mark.usefixtures("had")
def test_cudnn_is_never_asked_and_a_processors_backward_never_fused(
    device: str, gradients: bool, fused: bool
) -> None:
    before = enabled()
    with torch.set_grad_enabled(gradients), bfloat16_products(torch.device(device)):
        assert enabled() == {"cudnn": False, "flash": fused, "efficient": fused, "math": True}
    assert enabled() == before


def test_a_processor_without_them_stays_with_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autocast, "has_bfloat16", lambda device: device.type != "cpu")
    before = enabled()
    with bfloat16_products(CPU):
        assert (torch.rand(3, 4) @ torch.rand(4, 2)).dtype == torch.float32
        assert enabled() == before


def test_accelerators_have_them_and_this_processor_says_so() -> None:
    assert has_bfloat16(torch.device("cuda"))
    assert isinstance(has_bfloat16(CPU), bool)


def test_avx512_without_bfloat16_of_its_own_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    assert not has_bfloat16(CPU)


def test_a_build_without_onednn_has_none_on_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert not has_bfloat16(CPU)
    assert has_bfloat16(torch.device("cuda"))


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_nothing_changes_where_it_is_not_enabled(device: str) -> None:
    before = enabled()
    with bfloat16_products(torch.device(device), enabled=False):
        assert enabled() == before
