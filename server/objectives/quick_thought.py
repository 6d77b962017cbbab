"""Quick-Thought's loss: a sentence tells its neighbours from the other sentences of the batch."""

from __future__ import annotations

import torch

__all__ = ["neighbour_softmax", "neighbours_within"]


def neighbours_within(groups: torch.Tensor, positions: torch.Tensor, distance: int) -> torch.Tensor:
    """Which texts of a batch are neighbours: bool (n, n), symmetric, false on the diagonal.

    Args:
        groups: int64 (n,), equal for texts of one group.
        positions: int64 (n,), of each text within its group.
        distance: the farthest neighbour's.
    """
    apart = (positions.unsqueeze(1) - positions.unsqueeze(0)).abs()
    return (groups.unsqueeze(1) == groups.unsqueeze(0)) & (apart <= distance) & (apart > 0)


def neighbour_softmax(
    scores: torch.Tensor, targets: torch.Tensor, dropped: torch.Tensor | None = None
) -> torch.Tensor:
    r"""Cross entropy of uniform targets over the other texts of the batch.

    .. math:: \mathrm{mean}_i\Big(\mathrm{lse}_{j \neq i}\,S_{ij}
              - \tfrac{1}{|T_i|}\sum_{t \in T_i} S_{it}\Big)

    "An efficient framework for learning sentence representations", section 3. The released code
    sets a text's score with itself to 0, which leaves it among the candidates; here it is removed.

    Args:
        scores: (n, n), dot products of f (rows) and g (columns).
        targets: bool (n, n), false on the diagonal; rows without any do not count.
        dropped: bool (n, n): candidates that are left out of a row; targets never are.

    Returns:
        Scalar in [0, inf); 0 where no row has a target.
    """
    own = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    out = own if dropped is None else own | (dropped & ~targets)
    counts = targets.sum(dim=1)
    rows = counts > 0
    candidates = scores.masked_fill(out, -torch.inf)[rows]
    wanted = scores.masked_fill(~targets, 0).sum(dim=1)[rows] / counts[rows]
    return (candidates.logsumexp(dim=1) - wanted).sum() / rows.sum().clamp(min=1)
