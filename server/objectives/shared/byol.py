"""BYOL's loss over two views and, directional, over four: what the server and the device share."""

from __future__ import annotations

import math

import torch
from torch.nn import functional

__all__ = ["byol_loss", "std_ratio"]


def byol_loss(
    predictions: torch.Tensor, projections: torch.Tensor, reverse_weight: float = 0.0
) -> torch.Tensor:
    r"""Negative cosine of what one view predicts of another, :math:`D(q, z) = -\cos(q, z)`.

    Two views, "Bootstrap Your Own Latent", section 3.1, and "Exploring Simple Siamese
    Representation Learning", section 3:

    .. math:: \tfrac12 [D(q_1, z_2) + D(q_2, z_1)]

    Four, two light and two heavy ones of them, "Directional Self-supervised Learning for Heavy
    Image Augmentations", section 3; a heavy view predicts its light one and is nobody's target:

    .. math:: \tfrac14 [D(q_1, z_2) + D(q_2, z_1) + D(q_3, z_1) + D(q_4, z_2)]

    With ``reverse_weight`` r the last two terms have the weight 1 - r, and the reverse direction,
    :math:`D(q_1, z_3) + D(q_2, z_4)`, the weight r (0.1 in the SimSiam variant of the authors'
    code, whose loss is twice this one).

    Args:
        predictions: float (2 or 4, batch, dim) of the online network, light views first.
        projections: float (2, batch, dim) of the target network; (4, batch, dim) where there is a
            reverse direction. The gradient is stopped by the caller.
        reverse_weight: r, 0 to 1; four views only.

    Returns:
        Scalar in [-1, 1]; -1 is reached by learning and by collapse alike.
    """
    order = [1, 0] if len(predictions) == 2 else [1, 0, 0, 1]
    wanted = torch.stack([projections[view] for view in order])
    loss = -functional.cosine_similarity(predictions, wanted, dim=-1).mean()
    if not reverse_weight:
        return loss
    heavy = functional.cosine_similarity(predictions[2:], projections[:2], dim=-1).mean()
    reverse = functional.cosine_similarity(predictions[:2], projections[2:], dim=-1).mean()
    return loss + reverse_weight / 2 * (heavy - reverse)


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
