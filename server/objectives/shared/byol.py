"""BYOL: its loss over two views and, directional, over four, and its target networks.

A target is a copy that follows the network in training and never gets a gradient. The device's
training step is made of the same functions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch.nn import functional

__all__ = ["byol_loss", "momentum_at", "std_ratio", "update_target"]


def byol_loss(predictions: torch.Tensor, projections: torch.Tensor) -> torch.Tensor:
    r"""Negative cosine of what one view predicts of another, :math:`D(q, z) = -\cos(q, z)`.

    Two views, "Bootstrap Your Own Latent", section 3.1, and "Exploring Simple Siamese
    Representation Learning", section 3:

    .. math:: \tfrac12 [D(q_1, z_2) + D(q_2, z_1)]

    Four, two light and two heavy ones of them, "Directional Self-supervised Learning for Heavy
    Image Augmentations", section 3; a heavy view predicts its light one and is nobody's target:

    .. math:: \tfrac14 [D(q_1, z_2) + D(q_2, z_1) + D(q_3, z_1) + D(q_4, z_2)]

    Args:
        predictions: float (2 or 4, batch, dim) of the online network, light views first.
        projections: float (2, batch, dim) of the target network, without gradient.

    Returns:
        Scalar in [-1, 1]; -1 is reached by learning and by collapse alike.
    """
    order = [1, 0] if len(predictions) == 2 else [1, 0, 0, 1]
    targets = torch.stack([projections[view] for view in order])
    return -functional.cosine_similarity(predictions, targets, dim=-1).mean()


def std_ratio(vectors: torch.Tensor) -> torch.Tensor:
    r"""Spread of a batch's directions: :math:`\sqrt{d}\,\mathrm{mean}_j\,\mathrm{std}_i\,x_{ij}`.

    Args:
        vectors: float (batch, d), of any length.

    Returns:
        Scalar without gradient: about 1 for directions at random, 0 where all are one ("Exploring
        Simple Siamese Representation Learning", section 4.1).
    """
    directions = functional.normalize(vectors.detach().float(), dim=-1)  # (batch, d)
    spread: torch.Tensor = directions.std(dim=0, correction=0).mean()
    return spread * math.sqrt(directions.shape[1])


@torch.no_grad()
def update_target(
    online: Iterable[torch.Tensor], target: Iterable[torch.Tensor], momentum: float
) -> None:
    r"""Move a target towards its online network, after the optimiser's step.

    .. math:: \xi \leftarrow \mu\,\xi + (1 - \mu)\,\theta

    For a constant :math:`\theta` the target is :math:`\theta + \mu^k (\xi_0 - \theta)` after k
    steps: half the way takes 69 steps at 0.99, 693 at 0.999. ("Bootstrap Your Own Latent",
    section 3.1.)

    Args:
        online: parameters.
        target: those of the copy, in the same order; changed in place. Rows that a parameter of
            the network has gained since (tokens that another objective of the run has added) are
            none of the copy's.
        momentum: mu, 0 (copy) to 1 (stay).

    Raises:
        ValueError: the copy has another number of parameters.
        RuntimeError: a parameter of the copy has another width, or more rows.
    """
    for ours, theirs in zip(online, target, strict=True):
        known = ours if ours.shape == theirs.shape else ours[: len(theirs)]
        theirs.mul_(momentum).add_(known, alpha=1 - momentum)


def momentum_at(step: int, steps: int, momentum: float) -> float:
    r"""The momentum of step ``step`` of ``steps``, rising from :math:`\mu_0` to 1.

    .. math:: 1 - (1 - \mu_0)(\cos(\pi t / T) + 1) / 2

    ("Bootstrap Your Own Latent", section 3.2.)
    """
    return 1 - (1 - momentum) * (math.cos(math.pi * step / max(steps, 1)) + 1) / 2
