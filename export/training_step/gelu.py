"""GELU written so that onnxruntime runs it well, forwards and backwards.

The exporter spells GELU in an order that onnxruntime's fusion does not know, and its derivative in
eleven passes over the widest tensors of the step. Here the forward pass has the known order (one
fused operator after loading), and the derivative is computed from the input with as few passes as
there can be, keeping nothing but the input between the two.
"""

from __future__ import annotations

import math
from typing import Any

import torch

__all__ = ["gelu"]

_ROOT = math.sqrt(2.0)
_LOG_PEAK = 0.5 * math.log(2.0 / math.pi)  # of twice the normal density at 0


class _Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(inputs)
        return inputs * (1.0 + torch.erf(inputs / _ROOT)) * 0.5

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        inputs: torch.Tensor = ctx.saved_tensors[0]
        scaled = inputs * (1.0 / _ROOT)
        twice = torch.erf(scaled) + inputs * torch.exp(_LOG_PEAK - scaled * scaled)
        return (twice + 1.0) * (gradients[0] * 0.5)


def gelu(inputs: torch.Tensor) -> torch.Tensor:
    """x Phi(x), exact: "Gaussian Error Linear Units", section 2; any shape, float32."""
    result: torch.Tensor = _Gelu.apply(inputs)  # type: ignore[no-untyped-call]
    return result
