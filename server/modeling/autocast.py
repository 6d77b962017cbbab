"""The precision of a forward pass, and which attention computes it."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

__all__ = ["bfloat16_products", "has_bfloat16"]

_FUSED = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


@contextmanager
def bfloat16_products(device: torch.device, enabled: bool = True) -> Iterator[None]:
    """Within, matrix products are in bfloat16 and sums in float32, where ``enabled`` and had.

    A backward pass belongs outside. On processors, where there will be one, attention is written
    out, because the fused one's backward takes half of a step in bfloat16 (torch 2.13). On
    accelerators it is any but cuDNN's, which plans anew for every shape: .2 s for each length of a
    batch that it has not met, where the whole step takes an H200 .04 s.
    """
    if not (enabled and has_bfloat16(device)):
        yield
        return
    written_out = device.type == "cpu" and torch.is_grad_enabled()
    backends = [SDPBackend.MATH] if written_out else _FUSED
    with torch.autocast(device.type, torch.bfloat16), sdpa_kernel(backends):
        yield


def has_bfloat16(device: torch.device) -> bool:
    """Whether products in bfloat16 are worth asking for: accelerators, processors that have them.

    Others make up for them: with AVX2 alone a product took seventy times as long as in float32,
    with AVX-512 that has no bfloat16 of its own four times (torch 2.13).
    """
    if device.type != "cpu":
        return True
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False  # Apple's processors: builds for them do not know the questions below
    if platform.machine().lower() in ("x86_64", "amd64"):
        # Torch's own answer below is yes on any processor with AVX-512.
        return bool(torch.cpu._is_avx512_bf16_supported())
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
