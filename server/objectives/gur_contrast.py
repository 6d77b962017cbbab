"""GUR's contrast as a pure function of tensors."""

from __future__ import annotations

import torch

from pocketquery.server.objectives.shared.losses import cosines, info_nce

__all__ = ["gur_contrast"]


def gur_contrast(
    first: torch.Tensor,
    second: torch.Tensor,
    temperature: float,
    dropped: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    r"""The symmetric InfoNCE of the pairs' vectors, and how often a text finds its partner.

    .. math:: L_{CL} = \tfrac12 [CE(S, \mathrm{arange}) + CE(S^T, \mathrm{arange})], \qquad
        S = \cos(u_s, u_t) / \tau

    *Generate to Understand for Representation*, the contrastive loss. The printed denominator
    sums over the anchors' own side; the sum runs over the partners.

    Args:
        first: float (n, dim).
        second: float (n, dim); row i is the partner of row i.
        temperature: tau.
        dropped: bool (n, n): pairs that are no negatives.

    Returns:
        The loss, in [0, inf) and 0 for no pairs or no negatives; and the share of the first texts
        whose own partner is the nearest, without gradient.
    """
    if not len(first):
        return first.sum(), first.new_zeros(())
    own = torch.arange(len(first), device=first.device)
    with torch.no_grad():
        kept = dropped.clone().fill_diagonal_(False)
        nearest = cosines(first, second).masked_fill(kept, -torch.inf).argmax(dim=1)
    loss = info_nce(first, second, temperature, dropped=dropped)
    return loss, (nearest == own).float().mean()
