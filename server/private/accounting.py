"""Epsilon of noise and participations, against each adversary; by the package dp-accounting.

What is protected is everything one device contributes within a season: its clipped changes,
replaced by zero in every round it took part in. Composition runs over the participations that a
device's own ledger allows, never over a sampling probability. The server, charging habits and time
zones decide who takes part in a round, so no amplification by sampling is claimed.

Each device adds discrete Gaussian noise before masking: rho-zCDP, turned into (epsilon, delta) by
the Renyi accountant.

Adversaries: H, a server that follows the protocol and keeps what it sees; M, one that deviates and
may see sums in which only ``least_honest`` honest devices' noise is certain; R, anybody who gets
the releases, against whom epsilon is that against H.
"""

from __future__ import annotations

from typing import Literal

from pocketquery.sdk.errors import MissingExtraError
from pocketquery.sdk.validation import check, number, whole

__all__ = ["Adversary", "epsilon_of_zcdp", "least_honest", "rho_of"]

Adversary = Literal["H", "M", "R"]


def least_honest(neighbours: int, threshold: int) -> int:
    """The fewest honest devices in a sum that a deviating server can learn.

    With ``neighbours`` k and ``threshold`` t at most c = 2t - k - 1 of a device's neighbours may
    collude. Then every sum that can be unmasked holds t - c + 1 honest devices.

    Raises:
        InvalidInputError: no t above k/2 and at most k.
    """
    check("neighbours", neighbours, whole())
    check("threshold", threshold, whole(neighbours // 2 + 1, neighbours))
    return threshold - (2 * threshold - neighbours - 1) + 1


def rho_of(noise_multiplier: float, participations: int = 1) -> float:
    """Rho (zCDP) of as many sums with Gaussian noise of ``noise_multiplier`` sensitivities."""
    check("noise_multiplier", noise_multiplier, number(above=0))
    check("participations", participations, whole())
    return participations / (2.0 * noise_multiplier * noise_multiplier)


def epsilon_of_zcdp(rho: float, delta: float) -> float:
    """Epsilon at ``delta`` of rho-zCDP; 0 for no loss.

    Raises:
        InvalidInputError: a negative rho, or a delta not between 0 and 1.
        MissingExtraError: dp-accounting is not installed.
    """
    check("delta", delta, number(above=0, below=1))
    check("rho", rho, number(0))
    if rho == 0:
        return 0.0
    try:  # a second or two, and of the server's extra: only when asked
        from dp_accounting import ZCDpEvent
        from dp_accounting.rdp import RdpAccountant
    except ImportError as error:
        raise MissingExtraError.of("dp-accounting", "privacy") from error
    accountant = RdpAccountant()
    accountant.compose(ZCDpEvent(rho, 0.0))
    return float(accountant.get_epsilon(delta))
