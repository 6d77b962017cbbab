"""Contrast of word distributions by Jensen-Shannon divergence, all pairs without a cube in memory.

"A Contrastive Pre-training Approach to Learn Discriminative Autoencoder for Dense Retrieval", the
contrastive loss on the decoder's word distributions.

With n distributions over V tokens, a tensor (n, n, V) is 2 GB at n = 128, V = 30,522, and autograd
keeps several. Here a block of pairs and tokens at a time is computed and reduced, and computed
again in the backward pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional

from pocketquery.server.modeling.precision import at_least_float32

__all__ = ["js_contrast", "log_distribution", "pairwise_js", "partner_contrast"]

_LEAST_RATIO = (
    1e-30  # of a ratio: its logarithm is finite, and nothing it is multiplied with is felt
)
_BLOCK_CPU = 1 << 18  # elements: what stays in a core's cache
_BLOCK_ACCELERATOR = 1 << 25  # elements: few launches, 128 MB


def log_distribution(logits: torch.Tensor) -> torch.Tensor:
    r"""Independent word probabilities, normalised to one distribution, as logarithms.

    .. math:: \ln p_j = \ln \sigma(z_j) - \mathrm{lse}_k \ln \sigma(z_k)

    Args:
        logits: float (n, vocabulary).

    Returns:
        (n, vocabulary), float32 or wider, finite for all finite logits.
    """
    return functional.logsigmoid(at_least_float32(logits)).log_softmax(dim=-1)


def pairwise_js(log_p: torch.Tensor, *, elements: int | None = None) -> torch.Tensor:
    r"""Jensen-Shannon divergences between all rows.

    .. math:: \mathrm{JS}(P, Q) = \tfrac12 \sum_j P_j \ln\frac{P_j}{M_j} + Q_j \ln\frac{Q_j}{M_j},
              \qquad M = \tfrac12 (P + Q)

    Each pair is computed once, for JS is symmetric. Beside its result it takes memory for a few
    matrices like ``log_p`` and for one block.

    Args:
        log_p: float (n, vocabulary), logarithms of distributions.
        elements: of a block (pairs times tokens); None for what suits the device.

    Returns:
        (n, n) in [0, ln 2], like ``log_p``, symmetric, zero on the diagonal; differentiable once.
    """
    if elements is None:
        elements = _BLOCK_CPU if log_p.device.type == "cpu" else _BLOCK_ACCELERATOR
    divergences: torch.Tensor = _PairwiseJs.apply(log_p, elements)  # type: ignore[no-untyped-call]
    return divergences


def js_contrast(divergences: torch.Tensor, dropped: torch.Tensor | None = None) -> torch.Tensor:
    r"""Each view finds its partner among all other views, by the divergence of their words.

    .. math:: \frac1{2m} \sum_i -\ln
              \frac{e^{-\mathrm{JS}(i, i^+)}}{\sum_{k \neq i} e^{-\mathrm{JS}(i, k)}}

    Args:
        divergences: float (2m, 2m), symmetric; rows i and i + m are views of one text.
        dropped: bool (2m, 2m): columns left out of a row (equal texts), never the partner.

    Returns:
        Scalar. With nothing dropped in [ln m, ln(4m - 3)], and ln(2m - 1) where all
        distributions are the same: the useful range is 0.69 nats.
    """
    return partner_contrast(-divergences, dropped)


def partner_contrast(scores: torch.Tensor, dropped: torch.Tensor | None = None) -> torch.Tensor:
    """Mean cross entropy of every view's partner among all views but itself.

    Both views of a text are anchors, and a denominator leaves out the anchor alone: 2m - 1 terms.
    The printed formula sums over m texts with the indices of 2m views; this reading has the number
    of negatives that the paper states.

    Args:
        scores: float (2m, 2m); rows i and i + m are views of one text.
        dropped: bool (2m, 2m): columns left out of a row (equal texts), never the partner.

    Returns:
        Scalar in [0, inf); a row whose negatives are all left out counts 0.
    """
    views = len(scores)
    partner = torch.arange(views, device=scores.device).roll(views // 2).unsqueeze(1)  # (2m, 1)
    out = torch.eye(views, dtype=torch.bool, device=scores.device)
    if dropped is not None:
        out = out | dropped.scatter(1, partner, False)
    positive = scores.gather(1, partner).squeeze(1)  # (2m,)
    return (scores.masked_fill(out, -torch.inf).logsumexp(dim=1) - positive).mean()


class _PairwiseJs(torch.autograd.Function):
    """All pairs in blocks.

    Both passes work on ratios to the mean distribution, R = P / mean(P): with f(x) = x ln x,
    JS is the mean's expectation of f(R_i)/2 + f(R_k)/2 - f((R_i + R_k)/2). The mean cancels out of
    the sum, and where the distributions hardly differ, as at the start of training, the ratios are
    near 1, their logarithms near 0, and no digits are lost in a difference of entropies.
    """

    @staticmethod
    def forward(ctx: Any, log_p: torch.Tensor, elements: int) -> torch.Tensor:
        ctx.save_for_backward(log_p)
        ctx.elements = elements
        with torch.autocast(log_p.device.type, enabled=False):
            return _forward(log_p, elements)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: torch.Tensor) -> tuple[torch.Tensor, None]:
        (log_p,) = ctx.saved_tensors
        with torch.autocast(log_p.device.type, enabled=False):
            return _backward(log_p, outer, ctx.elements), None


def _forward(log_p: torch.Tensor, elements: int) -> torch.Tensor:
    mean, ratios = _ratios(log_p)
    own = ratios.log().mul_(ratios) @ mean  # (n,)
    ratios.mul_(0.5)
    mixed = log_p.new_zeros(len(log_p), len(log_p))
    for rows, tokens in _blocks(log_p.shape, elements):
        middle = ratios[rows, None, tokens] + ratios[None, rows.start :, tokens]
        terms = middle.log().mul_(middle)  # (rows, n - first, tokens)
        mixed[rows, rows.start :] += terms @ mean[tokens]
    divergences = ((own.unsqueeze(0) + own.unsqueeze(1)) / 2 - mixed).triu(1).clamp_(min=0)
    return divergences + divergences.T


def _backward(log_p: torch.Tensor, outer: torch.Tensor, elements: int) -> torch.Tensor:
    r"""dL/d ln P_i = 1/2 P_i \sum_k w_ik (ln P_i - ln M_ik), where w is ``outer`` symmetrised."""
    weights = (outer + outer.T).fill_diagonal_(0)  # (n, n)
    upper = weights.triu(1)
    _, ratios = _ratios(log_p)
    gradient = ratios.log().mul_(weights.sum(dim=1, keepdim=True))  # (n, vocabulary)
    ratios.mul_(0.5)
    for rows, tokens in _blocks(log_p.shape, elements):
        middle = ratios[rows, None, tokens] + ratios[None, rows.start :, tokens]
        middle.log_()  # (rows, n - first, tokens)
        share = upper[rows, rows.start :]  # (rows, n - first)
        gradient[rows, tokens] -= torch.einsum("ik,ikv->iv", share, middle)
        gradient[rows.start :, tokens] -= torch.einsum("ik,ikv->kv", share, middle)
    return gradient.mul_(log_p.exp()).mul_(0.5)


def _ratios(log_p: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The mean distribution (vocabulary,) and every row's ratio to it (n, vocabulary)."""
    p = log_p.exp()
    mean = p.mean(dim=0)
    return mean, p.div_(mean.clamp(min=torch.finfo(p.dtype).tiny)).clamp_(min=_LEAST_RATIO)


def _blocks(shape: torch.Size, elements: int) -> Iterator[tuple[slice, slice]]:
    """Rows and tokens of every block: that many rows against themselves and all that follow."""
    n, vocabulary = shape
    width = min(vocabulary, max(1, elements // n))
    height = min(n, max(1, elements // (n * width)))
    for first in range(0, vocabulary, width):
        for row in range(0, n, height):
            yield slice(row, min(row + height, n)), slice(first, first + width)
