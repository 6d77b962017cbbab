"""Target networks: copies that follow the network in training and never get a gradient."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch

from pocketquery.sdk.errors import InvalidInputError

__all__ = ["SCHEDULES", "momentum_at", "update_target"]

SCHEDULES = ("cosine", "constant")
"""How the momentum of a target changes over a run."""


@torch.no_grad()
def update_target(
    online: Iterable[torch.Tensor], target: Iterable[torch.Tensor], momentum: float
) -> None:
    r"""Move a target towards its online network, after the optimiser's step.

    .. math:: \xi \leftarrow \mu\,\xi + (1 - \mu)\,\theta

    For a constant :math:`\theta` the target is :math:`\theta + \mu^k (\xi_0 - \theta)` after k
    steps: half the way takes 69 steps at 0.99, 693 at 0.999. ("Bootstrap Your Own Latent",
    section 3.1.)

    Args:
        online: parameters.
        target: those of the copy, in the same order; changed in place. Rows that a parameter of
            the network has gained since (tokens that another objective of the run has added) are
            none of the copy's.
        momentum: mu, 0 (copy) to 1 (stay).

    Raises:
        ValueError: the copy has another number of parameters.
        RuntimeError: a parameter of the copy has another width, or more rows.
    """
    for ours, theirs in zip(online, target, strict=True):
        known = ours if ours.shape == theirs.shape else ours[: len(theirs)]
        theirs.mul_(momentum).add_(known, alpha=1 - momentum)


def momentum_at(step: int, steps: int, momentum: float, schedule: str = "cosine") -> float:
    r"""The momentum of step ``step`` of ``steps``.

    Constant, or :math:`1 - (1 - \mu_0)(\cos(\pi t / T) + 1) / 2`, which rises from
    :math:`\mu_0` to 1 ("Bootstrap Your Own Latent", section 3.2).

    Raises:
        InvalidInputError: no such schedule.
    """
    if schedule == "constant":
        return momentum
    if schedule == "cosine":
        return 1 - (1 - momentum) * (math.cos(math.pi * step / max(steps, 1)) + 1) / 2
    raise InvalidInputError(f'the schedule is "{schedule}"; expected {" or ".join(SCHEDULES)}')
