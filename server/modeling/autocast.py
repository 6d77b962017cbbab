"""The precision of a forward pass, and which attention computes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

__all__ = ["bfloat16_products"]

_FUSED = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


@contextmanager
def bfloat16_products(device: torch.device, enabled: bool = True) -> Iterator[None]:
    """Within, matrix products are in bfloat16 and sums in float32, where ``enabled``.

    A backward pass belongs outside. On processors, where there will be one, attention is written
    out, because the fused one's backward takes half of a step in bfloat16 (torch 2.13). On
    accelerators it is any but cuDNN's, which plans anew for every shape: .2 s for each length of a
    batch that it has not met, where the whole step takes an H200 .04 s.
    """
    if not enabled:
        yield
        return
    written_out = device.type == "cpu" and torch.is_grad_enabled()
    backends = [SDPBackend.MATH] if written_out else _FUSED
    with torch.autocast(device.type, torch.bfloat16), sdpa_kernel(backends):
        yield
