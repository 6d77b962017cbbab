"""Auto-MLM's two terms: the hinge over pairs, and MLM through the sentence's vector.

"Auto-MLM: Improved Contrastive Learning for Self-supervised Multi-lingual Knowledge Retrieval",
the sections on its contrastive and its auto-encoding loss. Two departures from the print, which
are errors there: the hinge starts at the first pair, and the margin is added within it (as printed
it is subtracted, and then vectors that are all equal cost nothing).
"""

from __future__ import annotations

import torch
from torch.nn import functional

from pocketquery.server.modeling.precision import wide
from pocketquery.server.objectives.mlm import masked_positions
from pocketquery.server.objectives.shared.losses import margin_in_batch
from pocketquery.server.objectives.shared.masking import IGNORED

__all__ = [
    "active_pairs",
    "auto_encoding_loss",
    "conditioned_states",
    "masked_accuracy",
    "pair_hinge",
]


def pair_hinge(
    scores: torch.Tensor, margin: float, dropped: torch.Tensor, *, bidirectional: bool = False
) -> torch.Tensor:
    r"""The contrastive term: a pair's cosine exceeds those of its agent with other users.

    .. math:: L = \frac1N \sum_{i=1}^N \sum_{j \neq i} [\gamma - S_{ii} + S_{ij}]_+

    Args:
        scores: (N, N) cosines, agents in rows and users in columns, pairs on the diagonal.
        margin: gamma.
        dropped: bool (N, N): false negatives, which do not count.
        bidirectional: average with the hinge over columns.

    Returns:
        Scalar in [0, (N - 1)(2 + gamma)]; (N - 1) gamma where all vectors are equal.
    """
    rows = margin_in_batch(scores, margin, dropped)
    return (rows + margin_in_batch(scores.T, margin, dropped.T)) / 2 if bidirectional else rows


def active_pairs(scores: torch.Tensor, margin: float, dropped: torch.Tensor) -> torch.Tensor:
    """Share of the negatives that the hinge still moves; arguments as in :func:`pair_hinge`."""
    own = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    counted = ~(dropped | own)
    active = (margin - scores.diagonal().unsqueeze(1) + scores > 0) & counted
    return active.sum() / counted.sum().clamp(min=1)


def conditioned_states(
    states: torch.Tensor, vectors: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    """The states of the masked positions, each plus the vector of its own sentence.

    Args:
        states: token states (rows, length, width) of the masked texts.
        vectors: (rows, width), of the same texts unmasked, not normalised.
        labels: int64 (rows, length), :data:`IGNORED` where there is no loss.

    Returns:
        (n, width) for n masked positions, in the order of ``masked_positions``.
    """
    rows, columns = masked_positions(labels)
    return states[rows, columns] + vectors[rows]


def auto_encoding_loss(
    logits: torch.Tensor, labels: torch.Tensor, reduction: str = "token_mean"
) -> torch.Tensor:
    """Cross entropy of the masked tokens.

    Args:
        logits: (n, vocabulary) at the masked positions.
        labels: int64 (rows, length), n of which are not :data:`IGNORED`.
        reduction: ``"token_mean"``, or ``"sum_per_sentence"``: the sum over a sentence's masked
            tokens, averaged over sentences.

    Returns:
        Scalar; 0 where nothing was masked.
    """
    target = labels[labels != IGNORED]  # (n,)
    total = functional.cross_entropy(wide(logits), target, reduction="sum")
    count = len(target) if reduction == "token_mean" else len(labels)
    return total / max(count, 1)


def masked_accuracy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Share of the masked tokens that are predicted rightly; arguments as the loss's."""
    target = labels[labels != IGNORED]
    return (logits.argmax(dim=-1) == target).sum() / max(len(target), 1)
