"""A projection head whose batch norm treats the two sides of a contrast differently."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn
from torch.nn import functional

__all__ = ["AsymmetricNorm", "NormMode", "ProjectionHead"]

NormMode = Literal["asym", "vanilla", "none"]


class AsymmetricNorm(nn.Module):
    """Batch norm over features that is told, call by call, which statistics to use.

    The choice is an argument and not ``train()`` or ``eval()``: those would switch dropout too, and
    any ``train()`` from outside would silently undo them.

    Args:
        width: features.
    """

    running_mean: torch.Tensor
    running_var: torch.Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.momentum = 0.1  # weight of a new batch in the running statistics
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("running_var", torch.ones(width))

    def forward(self, x: torch.Tensor, *, batch_statistics: bool, update: bool) -> torch.Tensor:
        """Normalise ``x`` (rows, width) and apply the affine map.

        Args:
            x: float32 or wider.
            batch_statistics: by the mean and variance of these rows (two at least); else by the
                running ones, which are constants, so that a row's result depends on no other row.
            update: let the running statistics take in those of these rows.
        """
        mean, variance = self.running_mean, self.running_var
        if not (batch_statistics and update):
            # Copies: neither what is only measured nor a later update may change what was read.
            mean, variance = mean.clone(), variance.clone()
        return functional.batch_norm(
            x, mean, variance, self.weight, self.bias, batch_statistics, self.momentum
        )


class ProjectionHead(nn.Module):
    """Linear, batch norm, ReLU, linear: from pooled states to the vectors that are contrasted.

    "Unsupervised Context Aware Sentence Representation Pretraining for Multi-lingual Dense
    Retrieval", asymmetric batch normalisation. The paper calls the head non-linear and names no
    activation; here it is a ReLU after the norm.

    Args:
        width: of the pooled states and of the vectors.
        mode: ``asym``: one side by batch statistics, the other by running ones; ``vanilla``: both
            sides by those of all rows together; ``none``: no norm.
    """

    def __init__(self, width: int, mode: NormMode) -> None:
        super().__init__()
        self.mode = mode
        self.inner = nn.Linear(width, width)
        self.norm = AsymmetricNorm(width) if mode != "none" else None
        self.outer = nn.Linear(width, width)

    def forward(
        self, pooled: torch.Tensor, *, batch_statistics: bool, update: bool = False
    ) -> torch.Tensor:
        """Vectors (rows, width) of pooled states (rows, width), all normalised alike."""
        inner = self.inner(pooled)
        if self.norm is not None:
            inner = self.norm(inner, batch_statistics=batch_statistics, update=update)
        vectors: torch.Tensor = self.outer(functional.relu(inner))
        return vectors

    def sides(
        self, first: torch.Tensor, second: torch.Tensor, batch_side: int, *, update: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Vectors of the two sides of a contrast.

        Both sides get gradient. The side with batch statistics comes first, so that the other sees
        running statistics at most one update old.

        Args:
            first: pooled states (n, width), the centres.
            second: pooled states (n, width), their contexts.
            batch_side: which side has batch statistics in mode ``asym``, 0 or 1.
            update: let the running statistics follow.
        """
        if self.mode == "asym":
            if batch_side == 0:
                leading = self(first, batch_statistics=True, update=update)
                return leading, self(second, batch_statistics=False)
            leading = self(second, batch_statistics=True, update=update)
            return self(first, batch_statistics=False), leading
        together = self(torch.cat([first, second]), batch_statistics=True, update=update)
        return together[: len(first)], together[len(first) :]
