"""The heads of self-supervision without negatives: projectors and the predictor.

They live for the training only. Their batch normalisation is no decoration: without batch
statistics the MLP heads collapse, and LayerNorm is no substitute there.
"""

from __future__ import annotations

from itertools import pairwise
from typing import cast

import torch
from torch import nn
from torch.nn import functional

__all__ = ["GroupProjector", "mlp", "predictor"]

_LAYERS = 4


class _Attention(nn.Module):
    """Self-attention with a residual: x + out(attention(x))."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inputs = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.inputs(x).chunk(3, dim=-1)  # each (rows, length, width)
        attended = functional.scaled_dot_product_attention(query, key, value)
        return cast(torch.Tensor, x + self.output(attended))


class GroupProjector(nn.Module):
    """Self-attention over groups of the features of a pooled vector ("Query-BERT", projector).

    The report puts four attention layers with batch norm after the pooling and counts far fewer
    parameters than the MLP has. Attention over one vector is degenerate (its only weight is 1), and
    full-width layers would have more parameters. Attention over feature groups is the reading under
    which both hold. It takes (rows, d) as (rows, groups, d / groups), learnt group embeddings, then
    four times attention, residual, and a batch normalisation of all d features.

    Args:
        width: d.
        groups: parts of the features; divides d.
    """

    def __init__(self, width: int, *, groups: int = 8) -> None:
        super().__init__()
        narrow = width // groups
        self.embeddings = nn.Parameter(torch.randn(groups, narrow) * narrow**-0.5)
        self.layers = nn.ModuleList(_Attention(narrow) for _ in range(_LAYERS))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(_LAYERS))

    def forward(self, pooled: torch.Tensor) -> torch.Tensor:
        """Projections float (rows, d) of ``pooled`` float (rows, d)."""
        x = pooled.view(len(pooled), *self.embeddings.shape) + self.embeddings
        for attention, norm in zip(self.layers, self.norms, strict=True):
            flat = norm(attention(x).flatten(1))  # (rows, d)
            x = flat.view(x.shape)  # (rows, groups, d / groups)
        return x.flatten(1)


def mlp(width: int) -> nn.Sequential:
    """BYOL's projector: linear d-4d, batch norm, ReLU, linear 4d-d."""
    return _stack(width, 4 * width, width)


def predictor(width: int) -> nn.Sequential:
    """Linear p-2p, 2p-2p, 2p-p; batch norm and ReLU after the first two, nothing after the last.

    ("Query-BERT", after the predictors of "Bootstrapped Unsupervised Sentence Representation
    Learning", which are wider: 10d.)
    """
    return _stack(width, 2 * width, 2 * width, width)


def _stack(*sizes: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    *hidden, last = pairwise(sizes)
    for narrow, wide in hidden:
        # The normalisation takes out a bias before it.
        layers += [nn.Linear(narrow, wide, bias=False), nn.BatchNorm1d(wide), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(*last))
