"""Losses that bring query vectors into a frozen document space: pure functions of tensors.

*Query-BERT* names an alignment and not its loss; these are the candidates. Two more, ``align_cos``
and ``align_qd``, are :func:`pocketquery.distill.losses.cosine_loss` towards the vector of the
relevant document, and towards the document encoder's own vector of the query.
"""

from __future__ import annotations

import torch

from pocketquery.server.objectives.shared.losses import info_nce, unit

__all__ = ["nce_loss", "raw_loss", "triplet_loss"]


def raw_loss(raw: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    r"""``align_mse``: mean over rows and dimensions of :math:`(u - e^+)^2`, before normalisation.

    For a linear map its minimum is that of least squares, which has a closed form.

    Args:
        raw: u, float (batch, dim).
        target: e+, float (batch, dim), no gradient.
    """
    return (raw - target.detach()).square().mean()


def triplet_loss(
    queries: torch.Tensor, positives: torch.Tensor, negatives: torch.Tensor, margin: float = 0.1
) -> torch.Tensor:
    r"""``align_trip``: mean of :math:`[\gamma - \cos(u, e^+) + \cos(u, e^-)]_+`.

    Args:
        queries: u, float (batch, dim).
        positives: e+, float (batch, dim).
        negatives: e-, float (batch, k, dim), hard ones of each query.
        margin: gamma.

    Returns:
        Scalar in [0, 2 + gamma].
    """
    u = unit(queries)
    near = (u * unit(positives.detach())).sum(dim=-1, keepdim=True)  # (batch, 1)
    far = (unit(negatives.detach()) @ u.unsqueeze(-1)).squeeze(-1)  # (batch, k)
    return (margin - near + far).clamp(min=0).mean()


def nce_loss(
    queries: torch.Tensor,
    positives: torch.Tensor,
    negatives: torch.Tensor,
    dropped: torch.Tensor,
    temperature: float = 0.05,
) -> torch.Tensor:
    r"""``align_nce``: every query finds its document among the batch's and all hard negatives.

    Args:
        queries: u, float (batch, dim).
        positives: e+, float (batch, dim).
        negatives: e-, float (m, dim), may be none.
        dropped: bool (batch, batch + m): documents that are relevant to the query as well.
        temperature: tau.

    Returns:
        Scalar in [0, inf).
    """
    return info_nce(
        queries,
        positives.detach(),
        temperature,
        negatives=negatives,
        dropped=dropped,
        symmetric=False,
    )
