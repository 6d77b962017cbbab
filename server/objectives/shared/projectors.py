"""The heads of self-supervision without negatives: projectors and the predictor.

They live for the training only. Their normalisation is no decoration: without batch statistics
the MLP heads collapse, and LayerNorm is no substitute there.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, cast

import torch
from torch import nn
from torch.nn import functional

from pocketquery.server.modeling.sentence_encoder import pool

__all__ = ["NORMS", "FeatureNorm", "GroupProjector", "Norm", "TokenProjector", "mlp", "predictor"]

Norm = Literal["batch", "running", "layer", "none"]
NORMS: tuple[Norm, ...] = ("batch", "running", "layer", "none")

_KEPT = 0.9  # of the running statistics, a batch


class FeatureNorm(nn.Module):
    """Normalisation of features, with a learnt scale and shift.

    ``"batch"`` normalises by the batch's own statistics. ``"running"`` normalises by running
    statistics, which have no gradient: for the projector where batches have fewer than 8 rows. (In
    the MLP's projector and predictor together it does collapse: spread 0.1 after 600 toy steps,
    against 0.9 with the predictor's at ``"batch"``.) In evaluation both have running statistics.
    ``"layer"`` is LayerNorm, ``"none"`` the identity.

    Args:
        width: features.
        norm: which.
    """

    running_mean: torch.Tensor
    running_variance: torch.Tensor

    def __init__(self, width: int, norm: Norm = "batch") -> None:
        super().__init__()
        self.norm = norm
        if norm != "none":
            self.weight = nn.Parameter(torch.ones(width))
            self.bias = nn.Parameter(torch.zeros(width))
        if norm in ("batch", "running"):
            self.register_buffer("running_mean", torch.zeros(width))
            self.register_buffer("running_variance", torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalised rows, float (rows, width) as ``x``."""
        if self.norm == "none":
            return x
        if self.norm == "layer":
            return functional.layer_norm(x, x.shape[-1:], self.weight, self.bias)
        mean, variance = self.running_mean, self.running_variance
        if self.training and self.norm == "batch":
            return functional.batch_norm(
                x, mean, variance, self.weight, self.bias, training=True, momentum=1 - _KEPT
            )
        if self.training:
            with torch.no_grad():
                found = torch.var_mean(x.float(), dim=0, correction=0)
                variance.lerp_(found[0], 1 - _KEPT)
                mean.lerp_(found[1], 1 - _KEPT)
        # Cloned: a step runs several views, and the backward pass needs what each one had.
        return functional.batch_norm(x, mean.clone(), variance.clone(), self.weight, self.bias)


class _Attention(nn.Module):
    """Multi-head self-attention with a residual: x + out(attention(x))."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.inputs = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        rows, length, width = x.shape
        split = self.inputs(x).view(rows, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)  # each (rows, heads, length, width/heads)
        seen = None if mask is None else mask.bool()[:, None, None, :]
        found = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        return cast(torch.Tensor, x + self.output(found.transpose(1, 2).reshape(x.shape)))


class GroupProjector(nn.Module):
    """Self-attention over groups of the features of a pooled vector ("Query-BERT", projector).

    The report puts four attention layers with batch norm after the pooling and counts far fewer
    parameters than the MLP has. Attention over one vector is degenerate (its only weight is 1) and
    full-width layers would have more parameters; attention over feature groups is the reading
    under which both hold: (rows, d) as (rows, groups, d / groups), learnt group embeddings, then
    four times attention, residual, and a normalisation of all d features.

    Args:
        width: d.
        projection: width of the result; where it is not d, a linear map follows.
        groups: parts of the features; divides d.
        layers: of attention.
        heads: of each; divides d / groups.
        norm: after each layer.
    """

    def __init__(
        self,
        width: int,
        projection: int,
        *,
        groups: int = 8,
        layers: int = 4,
        heads: int = 1,
        norm: Norm = "batch",
    ) -> None:
        super().__init__()
        narrow = width // groups
        self.embeddings = nn.Parameter(torch.randn(groups, narrow) * narrow**-0.5)
        self.layers = nn.ModuleList(_Attention(narrow, heads) for _ in range(layers))
        self.norms = nn.ModuleList(FeatureNorm(width, norm) for _ in range(layers))
        self.output = nn.Identity() if projection == width else nn.Linear(width, projection)

    def forward(self, pooled: torch.Tensor) -> torch.Tensor:
        """Projections float (rows, projection) of ``pooled`` float (rows, d)."""
        x = pooled.view(len(pooled), *self.embeddings.shape) + self.embeddings
        for attention, norm in zip(self.layers, self.norms, strict=True):
            flat = norm(attention(x).flatten(1))  # (rows, d)
            x = flat.view(x.shape)  # (rows, groups, d / groups)
        return cast(torch.Tensor, self.output(x.flatten(1)))


class TokenProjector(nn.Module):
    """The other reading: the attention layers act on token states, the pooling comes after them.

    Its layers are full-width, so it has twice the parameters of the MLP. Statistics are those of
    real tokens alone: padding changes nothing.

    Args:
        width: of the states.
        projection: width of the result; where it is not ``width``, a linear map follows.
        layers: of attention.
        heads: of each.
        norm: after each layer.
        pooling: the encoder's.
    """

    def __init__(
        self,
        width: int,
        projection: int,
        *,
        layers: int = 4,
        heads: int = 1,
        norm: Norm = "batch",
        pooling: str = "mean",
    ) -> None:
        super().__init__()
        self.pooling = pooling
        self.layers = nn.ModuleList(_Attention(width, heads) for _ in range(layers))
        self.norms = nn.ModuleList(FeatureNorm(width, norm) for _ in range(layers))
        self.output = nn.Identity() if projection == width else nn.Linear(width, projection)

    def forward(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Projections float (rows, projection) of token states (rows, length, width)."""
        real = mask.bool()
        for attention, norm in zip(self.layers, self.norms, strict=True):
            tokens = norm(attention(states, mask)[real])  # (real tokens, width)
            empty = tokens.new_zeros(states.shape)
            states = empty.masked_scatter(real.unsqueeze(-1), tokens)  # (rows, length, width)
        return cast(torch.Tensor, self.output(pool(states, mask, self.pooling)))


def mlp(width: int, projection: int, norm: Norm = "batch") -> nn.Sequential:
    """BYOL's projector: linear d-4d, normalisation, ReLU, linear 4d-p."""
    return _stack((width, 4 * width, projection), norm)


def predictor(projection: int, norm: Norm = "batch") -> nn.Sequential:
    """Linear p-2p, 2p-2p, 2p-p; normalisation and ReLU after the first two, nothing after the last.

    ("Query-BERT", after the predictors of "Bootstrapped Unsupervised Sentence Representation
    Learning", which are wider: 10d.)
    """
    return _stack((projection, 2 * projection, 2 * projection, projection), norm)


def _stack(sizes: tuple[int, ...], norm: Norm) -> nn.Sequential:
    layers: list[nn.Module] = []
    *hidden, last = pairwise(sizes)
    for narrow, wide in hidden:
        # A bias before a normalisation by the batch would be taken out again.
        linear = nn.Linear(narrow, wide, bias=norm != "batch")
        layers += [linear, FeatureNorm(wide, norm), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(*last))
