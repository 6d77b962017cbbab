"""The precision of a step's forward pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

__all__ = ["bfloat16_products"]


@contextmanager
def bfloat16_products(device: torch.device, enabled: bool = True) -> Iterator[None]:
    """Within, matrix products are in bfloat16 and sums in float32, where ``enabled``.

    Its backward pass belongs outside. On processors attention is written out, because the fused
    one's backward takes half of a step in bfloat16 (torch 2.13).
    """
    if not enabled:
        yield
        return
    with torch.autocast(device.type, torch.bfloat16):
        if device.type != "cpu":
            yield
            return
        with sdpa_kernel(SDPBackend.MATH):
            yield
