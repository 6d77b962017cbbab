"""The loss of CCP: which sentences are neighbours, and their contrast with everything else."""

from __future__ import annotations

from typing import Protocol

import torch
from torch.nn import functional

from pocketquery.server.objectives.shared.losses import cosines

__all__ = ["ccp_accuracy", "ccp_loss", "ccp_masks"]


class Placed(Protocol):
    """Rows that know their place: which document, which of its sentences, which text."""

    @property
    def documents(self) -> torch.Tensor:
        """int64 (rows,), equal for rows of one document."""

    @property
    def positions(self) -> torch.Tensor:
        """int64 (rows,), counted in sentences."""

    @property
    def texts(self) -> torch.Tensor:
        """int64 (rows,), equal for equal texts."""


def ccp_masks(rows: Placed, bank: Placed, window_len: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Which columns are an anchor's positives, and which are no negatives of it.

    Positives are different sentences of one document at a distance of at most ``window_len - 1``.
    Negatives are sentences of other documents, wherever they come from, if their texts differ. (In
    the paper, sentences of the document outside the window are negatives, too.)

    Args:
        rows: the batch's 2n, centres first.
        bank: the m of the memory bank.
        window_len: W.

    Returns:
        Positives, bool (2n, 2n), symmetric without the diagonal; dropped, bool (2n, 2n + m).
    """
    count = len(rows.texts)
    documents, positions, texts = (
        _pairs(own, other)
        for own, other in (
            (rows.documents, bank.documents),
            (rows.positions, bank.positions),
            (rows.texts, bank.texts),
        )
    )
    same, equal = documents == 0, texts == 0  # (2n, 2n + m)
    near = same & (positions.abs() < window_len)
    return (near & ~equal)[:, :count], equal | same


def _pairs(own: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Differences (n, n + m) of n values to themselves and to m others."""
    return own.unsqueeze(1) - torch.cat([own, other]).unsqueeze(0)


def ccp_loss(
    vectors: torch.Tensor,
    positives: torch.Tensor,
    temperature: float,
    *,
    bank: torch.Tensor | None = None,
    dropped: torch.Tensor | None = None,
    normalize: bool = True,
) -> torch.Tensor:
    r"""Contrastive context prediction, over the centres and contexts of a batch together.

    .. math::

        \ell_{ci} = -\log\frac{f(z_c, z_i)}{f(z_c, z_i) + \sum_{k \in N} f(z_c, z_k)
            + \sum_{b \in M} f(z_c, b)},
        \qquad f(a, b) = e^{\cos(a, b) / \tau}

    averaged over the positives i of an anchor c, then over the anchors that have any.
    ("Unsupervised Context Aware Sentence Representation Pretraining for Multi-lingual Dense
    Retrieval", contrastive context prediction with a language-specific memory bank.) The paper's
    total is an unnormalised double sum in which c = i is not ruled out. Its scale grows with the
    square of the batch, so here are means, without c = i. Its denominator sums over all k != c;
    here an anchor's other positives are none of its negatives N.

    Args:
        vectors: float (n, dim), centres and contexts alike; every row is an anchor.
        positives: bool (n, n), symmetric, False on the diagonal.
        temperature: tau.
        bank: float (m, dim) further negatives of every anchor; gets no gradient.
        dropped: bool (n, n + m): columns left out of a row's denominator, never its positive.
        normalize: cosines; else raw inner products, as the paper's ablation has them.

    Returns:
        Scalar in [0, inf): ln(1 + (n - 2 + m) e^(-1/tau)) for orthonormal pairs, ln(n - 1 + m)
        where all vectors are equal. An anchor without negatives counts 0.
    """
    scores, negatives = _scores(vectors, positives, temperature, bank, dropped, normalize)
    anchors, chosen = positives.nonzero(as_tuple=True)  # (pairs,)
    pulled = scores[anchors, chosen]
    rest = negatives.logsumexp(dim=1)  # (n,), -inf where an anchor has no negatives
    losses = functional.softplus(rest[anchors] - pulled)
    counts = positives.sum(dim=1)  # (n,)
    return (losses / counts[anchors]).sum() / (counts > 0).sum().clamp(min=1)


def ccp_accuracy(
    vectors: torch.Tensor,
    positives: torch.Tensor,
    *,
    bank: torch.Tensor | None = None,
    dropped: torch.Tensor | None = None,
    normalize: bool = True,
) -> torch.Tensor:
    """Share of the anchors whose best positive beats every negative; arguments as in the loss."""
    scores, negatives = _scores(vectors, positives, 1.0, bank, dropped, normalize)
    best = scores[:, : len(scores)].masked_fill(~positives, -torch.inf).amax(dim=1)
    anchors = positives.any(dim=1)
    return (best > negatives.amax(dim=1))[anchors].float().mean()


def _scores(
    vectors: torch.Tensor,
    positives: torch.Tensor,
    temperature: float,
    bank: torch.Tensor | None,
    dropped: torch.Tensor | None,
    normalize: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """All scores (n, n + m), and the same with -inf wherever there is no negative."""
    columns = vectors if bank is None else torch.cat([vectors, bank.detach().to(vectors)])
    raw = cosines(vectors, columns) if normalize else vectors @ columns.T
    scores = raw / temperature  # (n, n + m)
    out = positives | torch.eye(len(vectors), dtype=torch.bool, device=vectors.device)
    out = functional.pad(out, (0, len(columns) - len(vectors)))
    return scores, scores.masked_fill(out if dropped is None else out | dropped, -torch.inf)
