"""The contrastive losses that every system is made of: pure functions of tensors."""

from __future__ import annotations

import torch
from torch.nn import functional

from pocketquery.server.modeling.precision import wide

__all__ = [
    "additive_margin_softmax",
    "cosines",
    "dots",
    "info_nce",
    "margin_in_batch",
    "negative_cosine",
    "ranknet",
    "same_text_mask",
    "unit",
]

_EPSILON = 1e-8


def cosines(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """All cosines between the rows of two matrices, in float32 or wider.

    Args:
        a: float (n, dim).
        b: float (m, dim).

    Returns:
        (n, m); norms are clamped below at 1e-8, so a zero row gives 0.
    """
    return dots(unit(a), unit(b))


def dots(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """All dot products between the rows of two matrices, in float32 or wider: (n, m)."""
    with torch.autocast(a.device.type, enabled=False):  # it would multiply in 16 bits
        return wide(a) @ wide(b).T


def unit(x: torch.Tensor) -> torch.Tensor:
    """Rows of unit length, float32 or wider, like ``x``."""
    return functional.normalize(wide(x), dim=-1, eps=_EPSILON)


def info_nce(
    anchors: torch.Tensor,
    positives: torch.Tensor,
    temperature: float,
    *,
    negatives: torch.Tensor | None = None,
    dropped: torch.Tensor | None = None,
    symmetric: bool = True,
) -> torch.Tensor:
    r"""Contrastive cross entropy over cosines, in-batch and with extra negatives.

    .. math:: \mathrm{mean}_i\,\big(\mathrm{lse}_j\,S_{ij} - S_{ii}\big), \qquad S = A P^T/\tau

    Args:
        anchors: float (n, dim), normalised here.
        positives: float (n, dim); row i belongs to anchor i, the others are its negatives.
        temperature: tau.
        negatives: float (m, dim) more negatives for every anchor; gets no gradient.
        dropped: bool (n, n + m): columns left out of a row's denominator (false negatives). The
            positive is never left out.
        symmetric: average with the other direction, which has no extra negatives.

    Returns:
        Scalar in [0, inf); a row whose negatives are all left out counts 0.
    """
    scores = cosines(anchors, positives) / temperature  # (n, n)
    own = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    out = torch.zeros_like(own) if dropped is None else dropped[:, : len(scores)] & ~own
    wide = scores.masked_fill(out, -torch.inf)
    if negatives is not None:
        extra = cosines(anchors, negatives.detach()) / temperature  # (n, m)
        if dropped is not None:
            extra = extra.masked_fill(dropped[:, len(scores) :], -torch.inf)
        wide = torch.cat([wide, extra], dim=1)  # (n, n + m)
    rows = (wide.logsumexp(dim=1) - scores.diagonal()).mean()
    if not symmetric:
        return rows
    columns = (scores.masked_fill(out, -torch.inf).logsumexp(dim=0) - scores.diagonal()).mean()
    return (rows + columns) / 2


def margin_in_batch(
    scores: torch.Tensor, margin: float, dropped: torch.Tensor | None = None
) -> torch.Tensor:
    r"""The hinge over the other columns of each row.

    .. math:: \frac1n \sum_i \sum_{j \neq i} [\gamma - S_{ii} + S_{ij}]_+

    Args:
        scores: (n, n) cosines, positives on the diagonal.
        margin: gamma.
        dropped: bool (n, n): pairs that do not count (false negatives).

    Returns:
        Scalar; exactly (n - 1) gamma where all cosines are equal, the collapsed solution.
    """
    own = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    hinge = (margin - scores.diagonal().unsqueeze(1) + scores).clamp(min=0)  # (n, n)
    return hinge.masked_fill(own if dropped is None else own | dropped, 0).sum() / len(scores)


def additive_margin_softmax(
    scores: torch.Tensor, margin: float, scale: float, dropped: torch.Tensor | None = None
) -> torch.Tensor:
    """Cross entropy over rows with ``margin`` taken off the diagonal (LaBSE's loss, one direction).

    Args:
        scores: (n, n) cosines, positives on the diagonal.
        margin: subtracted from the positives.
        scale: multiplies all scores.
        dropped: bool (n, n): columns left out of a row (false negatives), never the positive.
    """
    own = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    logits = scale * (scores - margin * own)
    if dropped is not None:
        logits = logits.masked_fill(dropped & ~own, -torch.inf)
    return (logits.logsumexp(dim=1) - logits.diagonal()).mean()


def ranknet(positive: torch.Tensor, negatives: torch.Tensor) -> torch.Tensor:
    """Mean of softplus(negative - positive): the pairwise loss of RankNet.

    Args:
        positive: scores (n,).
        negatives: scores (n, k).
    """
    return functional.softplus(negatives - positive.unsqueeze(1)).mean()


def negative_cosine(prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Mean of -cos(prediction, target), both (n, dim); no gradient reaches ``target``."""
    return -(unit(prediction) * unit(target.detach())).sum(dim=-1).mean()


def same_text_mask(first: list[str], second: list[str]) -> torch.Tensor:
    """bool (n, m): pairs of texts that are equal but for case and spaces, hence no negatives."""
    codes: dict[str, int] = {}
    numbered = [
        torch.tensor([codes.setdefault(" ".join(t.casefold().split()), len(codes)) for t in texts])
        for texts in (first, second)
    ]
    return numbered[0].unsqueeze(1) == numbered[1].unsqueeze(0)
