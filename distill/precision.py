"""Whether bfloat16 pays on this processor."""

from __future__ import annotations

import time

import torch

__all__ = ["bfloat16_pays"]

# The feed-forward product of a width of 384 for a batch of short texts.
_ROWS, _WIDTH, _HIDDEN = 1024, 384, 1536


def bfloat16_pays() -> bool:
    """Whether the CPU multiplies matrices at least twice as fast in bfloat16 as in float32.

    It does where the processor has AMX, by about four; elsewhere bfloat16 is emulated and slower.
    Measured, in some ten milliseconds, because no public interface of torch tells.
    """
    return 2 * _seconds(torch.bfloat16) < _seconds(torch.float32)


def _seconds(dtype: torch.dtype) -> float:
    left = torch.ones(_ROWS, _WIDTH, dtype=dtype)
    right = torch.ones(_WIDTH, _HIDDEN, dtype=dtype)
    times = []
    for _ in range(6):
        start = time.perf_counter()
        torch.mm(left, right)
        times.append(time.perf_counter() - start)
    return min(times)  # the least disturbed run; the first pays for preparation
