"""The precision below which no loss and no vector is computed."""

from __future__ import annotations

import torch

__all__ = ["at_least_float32"]


def at_least_float32(x: torch.Tensor) -> torch.Tensor:
    """``x`` in float32, or as it is in float64: 16 bits are too few for a norm or a sum."""
    return x if x.dtype == torch.float64 else x.float()
