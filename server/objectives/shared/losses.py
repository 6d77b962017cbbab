"""The contrastive losses that every system is made of: pure functions of tensors."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import torch
from torch.nn import functional

from pocketquery.server.modeling.precision import at_least_float32

__all__ = [
    "cosines",
    "dots",
    "in_batch_accuracy",
    "in_batch_cross_entropy",
    "info_nce",
    "key_codes",
    "margin_in_batch",
    "plain_text",
    "ranknet",
    "same_mask",
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
        return at_least_float32(a) @ at_least_float32(b).T


def unit(x: torch.Tensor) -> torch.Tensor:
    """Rows of unit length, float32 or wider, like ``x``."""
    return functional.normalize(at_least_float32(x), dim=-1, eps=_EPSILON)


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
    extra = None if negatives is None else cosines(anchors, negatives.detach()) / temperature
    if dropped is not None:
        own = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
        scores = scores.masked_fill(dropped[:, : len(scores)] & ~own, -torch.inf)
        if extra is not None:
            extra = extra.masked_fill(dropped[:, len(scores) :], -torch.inf)
    return in_batch_cross_entropy(scores, negatives=extra, symmetric=symmetric)


def in_batch_cross_entropy(
    scores: torch.Tensor,
    dropped: torch.Tensor | None = None,
    *,
    negatives: torch.Tensor | None = None,
    symmetric: bool = False,
) -> torch.Tensor:
    r"""Cross entropy of the diagonal over rows.

    .. math:: \mathrm{mean}_i\,\big(\mathrm{lse}_j\,S_{ij} - S_{ii}\big)

    Args:
        scores: S, float (n, n).
        dropped: bool (n, n): columns left out of a row (false negatives), never the diagonal.
        negatives: float (n, m), scores of each row's further columns.
        symmetric: average with the same over columns, which have none further.

    Returns:
        Scalar in [0, inf); a row whose negatives are all left out counts 0.
    """
    counted = scores
    if dropped is not None:
        own = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
        counted = scores.masked_fill(dropped & ~own, -torch.inf)
    every = counted if negatives is None else torch.cat([counted, negatives], dim=1)  # (n, n + m)
    rows = (every.logsumexp(dim=1) - scores.diagonal()).mean()
    if not symmetric:
        return rows
    return (rows + (counted.logsumexp(dim=0) - scores.diagonal()).mean()) / 2


@torch.no_grad()
def in_batch_accuracy(scores: torch.Tensor, dropped: torch.Tensor | None = None) -> torch.Tensor:
    """Share of the rows of ``scores`` (n, n) whose highest is on the diagonal, without gradient.

    ``dropped``, bool (n, n), leaves columns out of a row, never the diagonal.
    """
    own = torch.arange(len(scores), device=scores.device)
    if dropped is not None:
        scores = scores.masked_fill(dropped & (own.unsqueeze(1) != own), -torch.inf)
    return (scores.argmax(dim=1) == own).float().mean()


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


def ranknet(positive: torch.Tensor, negatives: torch.Tensor) -> torch.Tensor:
    """Mean of softplus(negative - positive): the pairwise loss of RankNet.

    Args:
        positive: scores (n,).
        negatives: scores (n, k).
    """
    return functional.softplus(negatives - positive.unsqueeze(1)).mean()


def key_codes(keys: Iterable[Hashable]) -> torch.Tensor:
    """The same number for equal keys, int64 (keys,)."""
    numbers: dict[Hashable, int] = {}
    codes = [numbers.setdefault(key, len(numbers)) for key in keys]
    return torch.tensor(codes, dtype=torch.int64)


def same_mask(first: Sequence[Hashable], second: Sequence[Hashable]) -> torch.Tensor:
    """bool (n, m): pairs of equal keys."""
    codes = key_codes([*first, *second])
    return codes[: len(first)].unsqueeze(1) == codes[len(first) :]


def same_text_mask(first: Sequence[str], second: Sequence[str]) -> torch.Tensor:
    """bool (n, m): pairs of texts that are equal but for case and spaces, hence no negatives."""
    return same_mask([plain_text(t) for t in first], [plain_text(t) for t in second])


def plain_text(text: str) -> str:
    """The text without differences of case and spaces: what makes two texts the same."""
    return " ".join(text.casefold().split())
