"""GUR's two losses as pure functions of tensors."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional

from pocketquery.server.objectives.masking import IGNORED
from pocketquery.server.objectives.primitives import cosines, info_nce

__all__ = ["gur_contrast", "infilling_loss"]


def infilling_loss(
    states: torch.Tensor,
    labels: torch.Tensor,
    logits_of: Callable[[torch.Tensor], torch.Tensor],
) -> tuple[torch.Tensor, torch.Tensor]:
    r"""Mean cross entropy over the tokens of the targets.

    .. math:: L_{LM} = \frac1n \sum_{i: y_i \neq \mathrm{ignored}} -\log p(y_i)

    Padding, and texts without hidden spans, never count (the released code trains on padding).

    Args:
        states: the decoder's (rows, length, width).
        labels: int64 (rows, length), ``IGNORED`` where there is no loss.
        logits_of: states (n, width) to logits (n, vocabulary); called with those that count alone.

    Returns:
        The loss, in [0, inf) and 0 where nothing counts; and the share of the tokens predicted
        rightly, without gradient.
    """
    counted = labels != IGNORED
    target = labels[counted]  # (n,)
    logits = logits_of(states[counted])  # (n, vocabulary)
    logits = logits if logits.dtype == torch.float64 else logits.float()
    total = functional.cross_entropy(logits, target, reduction="sum")
    right = (logits.argmax(dim=-1) == target).sum()
    return total / max(len(target), 1), right.detach() / max(len(target), 1)


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
