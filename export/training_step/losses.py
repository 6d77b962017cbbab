"""The objectives of a local training step: pure functions of tensors that return a scalar.

``index_byol`` is BYOL's scheme (an online network that predicts what a slowly moving target sees,
no negatives) with the device's own frozen index in the projector's place. Two views agree where
they rank the same documents alike, so there is nothing to rotate and nothing to collapse. ``byol``
is the scheme with projector and predictor: "Bootstrap Your Own Latent", section 3.1, and with four
views the directional form of "Directional Self-supervised Learning for Heavy Image Augmentations";
the server's pretraining shares it.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from pocketquery.server.objectives.shared.byol import byol_loss

__all__ = ["anchor_loss", "byol_loss", "opened_loss", "ranking_loss", "step_losses"]

_PADDING_SCORE = -1e9  # the score of a result that is padding; -inf would make 0 * inf a NaN
_LEAST_WEIGHT = 1e-12


def ranking_loss(
    online: torch.Tensor, target: torch.Tensor, prototypes: torch.Tensor, temperature: torch.Tensor
) -> torch.Tensor:
    """Mean over views and rows of KL(softmax(P t / temperature) || softmax(P o / temperature)).

    Args:
        online: float32 (views, batch, dim), unit rows.
        target: float32 (batch, dim), unit rows, no gradient.
        prototypes: float32 (batch, number, dim), document vectors for each query.
        temperature: scalar above 0.

    Returns:
        Scalar, 0 or more; 0 where every view ranks the prototypes as the target does.
    """
    documents = prototypes.transpose(1, 2)  # (batch, dim, number)
    expected = torch.log_softmax(
        target[:, None] @ documents / temperature, -1
    )  # (batch, 1, number)
    predicted = torch.log_softmax(online.transpose(0, 1) @ documents / temperature, -1)
    return (expected.exp() * (expected - predicted)).sum(-1).mean()  # over (batch, views)


def anchor_loss(vectors: torch.Tensor, anchor: torch.Tensor) -> torch.Tensor:
    """Mean of 1 - cos(vectors, anchor), both float32 (batch, dim) with unit rows; in [0, 2]."""
    return (1.0 - (vectors * anchor).sum(-1)).mean()


def opened_loss(
    vectors: torch.Tensor,
    shown: torch.Tensor,
    shown_mask: torch.Tensor,
    opened: torch.Tensor,
    weight: torch.Tensor,
    temperature: torch.Tensor,
) -> torch.Tensor:
    """The opened result against the others that were shown: weighted softmax cross entropy.

    Args:
        vectors: float32 (batch, dim), unit rows.
        shown: float32 (batch, number, dim), vectors of the results.
        shown_mask: float32 (batch, number), 1 on real results.
        opened: int64 (batch,), which of them was opened.
        weight: float32 (batch,), 0 where none was.
        temperature: scalar above 0.

    Returns:
        Scalar, 0 or more; 0 where no weight is above 0.
    """
    scores = (shown @ vectors[:, :, None]).squeeze(-1) / temperature  # (batch, number)
    log_probabilities = torch.log_softmax(scores + (1.0 - shown_mask) * _PADDING_SCORE, dim=-1)
    losses = -log_probabilities.gather(1, opened[:, None]).squeeze(1)  # (batch,)
    return (losses * weight).sum() / weight.sum().clamp(min=_LEAST_WEIGHT)


def step_losses(
    view_loss: torch.Tensor, views: torch.Tensor, given: Mapping[str, torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """All losses of a step, scalars: the sum that is trained on, then its parts as they are.

    Args:
        view_loss: how much the views differ.
        views: float32 (views, batch, dim), unit rows; the first are of the queries as they were.
        given: batch and weights by the names of the graph's inputs.
    """
    anchored = anchor_loss(views[0], given["anchor"])
    opened = opened_loss(
        views[0],
        given["shown"],
        given["shown_mask"],
        given["opened"],
        given["opened_weight"],
        given["temperature"],
    )
    total = view_loss + given["anchor_weight"] * anchored + given["opened_loss_weight"] * opened
    return total, view_loss, anchored, opened
