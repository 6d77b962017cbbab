"""BYOL's projector and predictor, which live for the training only and never ship.

Normalised by the batch's own statistics: without normalisation, or with LayerNorm, the MLP heads
collapse. There are no running statistics, so nothing of a batch travels.

A departure from BYOL, whose heads have ReLU: here it is GELU. A wide head takes ReLU of a hundred
thousand numbers a step, some of them within rounding of its kink, where the gradient is 0 in one
runtime and 1 in another. 20 steps on the device and in torch then differ by 1e-2 instead of 1e-6,
and no gate could tell that from a mistake.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch

from pocketquery.export.training_step.gelu import gelu

__all__ = ["PROJECTION", "head_sizes", "initial_heads", "project"]

PROJECTION = 256
"""Width of the projections; the shipped vector's own where that is narrower."""

_EPSILON = 1e-5


def head_sizes(dimension: int) -> dict[str, tuple[int, ...]]:
    """Layer widths: the projector d-4d-p, the predictor p-2p-2p-p."""
    p = min(PROJECTION, dimension)
    return {"projector": (dimension, 4 * dimension, p), "predictor": (p, 2 * p, 2 * p, p)}


def initial_heads(dimension: int, seed: int = 0) -> dict[str, npt.NDArray[np.float32]]:
    """Drawn heads: ``<head>.<j>.weight`` (out, in), then ``.norm.weight`` and ``.norm.bias`` but
    in the last layer. Only the predictor's last layer has a ``.bias``: after all others comes a
    normalisation, which takes a bias out again and leaves it no gradient but rounding.
    """
    rng = np.random.default_rng(seed)
    tensors = {}
    for head, sizes in head_sizes(dimension).items():
        last = len(sizes) - 2
        for number, (d_in, d_out) in enumerate(pairwise(sizes)):
            name, bound = f"{head}.{number}", d_in**-0.5
            tensors[f"{name}.weight"] = rng.uniform(-bound, bound, (d_out, d_in))
            if number < last:
                tensors[f"{name}.norm.weight"] = np.ones(d_out)
                tensors[f"{name}.norm.bias"] = np.zeros(d_out)
        if head == "predictor":
            tensors[f"{head}.{last}.bias"] = np.zeros(sizes[-1])
    return {name: tensor.astype(np.float32) for name, tensor in tensors.items()}


def project(tensors: Mapping[str, torch.Tensor], head: str, inputs: torch.Tensor) -> torch.Tensor:
    """``inputs`` (views, batch, d) through ``head``: (views, batch, p), each view by itself."""
    number = 0
    while f"{head}.{number}.weight" in tensors:
        name = f"{head}.{number}"
        inputs = inputs @ tensors[f"{name}.weight"].T
        if f"{name}.bias" in tensors:
            inputs = inputs + tensors[f"{name}.bias"]
        if f"{name}.norm.weight" in tensors:
            inputs = gelu(_normalise(tensors, f"{name}.norm", inputs))
        number += 1
    return inputs


def _normalise(
    tensors: Mapping[str, torch.Tensor], name: str, inputs: torch.Tensor
) -> torch.Tensor:
    centred = inputs - inputs.mean(dim=1, keepdim=True)
    variance = (centred * centred).mean(dim=1, keepdim=True)  # (views, 1, d)
    normed = centred * torch.rsqrt(variance + _EPSILON)
    return normed * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]
