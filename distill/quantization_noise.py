"""Quantisation in the loop: the student computes as its int8 graph will, and learns from that.

Jacob et al., "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only
Inference", section 3: forwards every weight and activation is rounded to the integers of the file,
backwards the rounding is taken for the identity. The integers are those of export/quantization/:
weights with 7 bits for each output channel, tables with 7 bits as a whole, activations with 8 bits
for each text. Smoothing comes first; its factors are those of the batch at hand, so that a run has
no state beside its weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from pocketquery.distill.pruning.product_quantization import ProductQuantizedEmbedding

__all__ = ["quantised_forward"]

_ALPHA = 0.75  # of the smoothing, as export has it
_LEAST_MAGNITUDE = 1e-5
_WEIGHT_LEVELS = 63  # 7 bits, symmetric
_ACTIVATION_LEVELS = 255  # 8 bits, from the smallest to the largest value


@contextmanager
def quantised_forward(model: nn.Module) -> Iterator[None]:
    """Within it, linear layers and embedding tables of ``model`` compute with rounded values.

    Weights, gradients and the model's state stay float; leaving it leaves nothing behind.
    """
    kinds = nn.Linear | nn.Embedding | ProductQuantizedEmbedding
    changed = [m for m in model.modules() if isinstance(m, kinds)]
    for module in changed:
        rounded = partial(_linear if isinstance(module, nn.Linear) else _look_up, module)
        setattr(module, "forward", rounded)  # noqa: B010 - type checkers forbid the assignment
    try:
        yield
    finally:
        for module in changed:
            del module.forward


def _linear(module: Any, states: torch.Tensor) -> torch.Tensor:
    """``states`` float (batch, ..., in) through an ``nn.Linear``, float (batch, ..., out)."""
    weight = module.weight
    with torch.no_grad():
        active = states.abs().flatten(0, -2).amax(dim=0).clamp_min(_LEAST_MAGNITUDE)  # (in,)
        heavy = weight.abs().amax(dim=0).clamp_min(_LEAST_MAGNITUDE)  # (in,)
        factors = (active**_ALPHA / heavy ** (1 - _ALPHA)).clamp_min(_LEAST_MAGNITUDE)
    weight = _rounded_weight(weight * factors, dim=1)
    return functional.linear(_rounded_states(states / factors), weight, module.bias)


def _look_up(module: Any, ids: torch.Tensor) -> torch.Tensor:
    weight = _rounded_weight(module.weight, dim=(0, 1))
    if isinstance(module, ProductQuantizedEmbedding):
        return module.look_up(ids, weight)
    return functional.embedding(ids, weight, module.padding_idx)


def _rounded_weight(weight: torch.Tensor, dim: int | tuple[int, ...]) -> torch.Tensor:
    """Symmetric, with one scale over ``dim``."""
    scale = (
        weight.detach().abs().amax(dim=dim, keepdim=True).clamp_min(_LEAST_MAGNITUDE)
        / _WEIGHT_LEVELS
    )
    return _straight_through(weight, torch.round(weight / scale) * scale)


def _rounded_states(states: torch.Tensor) -> torch.Tensor:
    """With one scale for each text, for on the device each text goes through the graph alone."""
    with torch.no_grad():
        rest = tuple(range(1, states.ndim))
        low = states.amin(dim=rest, keepdim=True).clamp_max(0.0)
        high = states.amax(dim=rest, keepdim=True).clamp_min(0.0)
        scale = ((high - low) / _ACTIVATION_LEVELS).clamp_min(1e-12)
        zero = torch.round(-low / scale)
        rounded = (torch.round(states / scale) + zero).clamp(0, _ACTIVATION_LEVELS)
        rounded = (rounded - zero) * scale
    return _straight_through(states, rounded)


def _straight_through(exact: torch.Tensor, rounded: torch.Tensor) -> torch.Tensor:
    return exact + (rounded - exact).detach()
