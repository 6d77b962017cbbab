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

from pocketquery.sdk.errors import InvalidInputError, MissingExtraError
from pocketquery.sdk.validation import check, number, one_of, whole

__all__ = [
    "ADVERSARIES",
    "Adversary",
    "epsilon",
    "epsilon_of_zcdp",
    "least_honest",
    "multiplier_for",
    "participations_needed",
    "rho_of",
]

Adversary = Literal["H", "M", "R"]
ADVERSARIES: tuple[Adversary, ...] = ("H", "M", "R")

_LARGEST_MULTIPLIER = 1e4


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


def participations_needed(rounds: int, cohort: int, fleet: int) -> int:
    """How often the most frequent of ``fleet`` devices takes part, at least, in ``rounds``."""
    for name, value in (("rounds", rounds), ("cohort", cohort), ("fleet", fleet)):
        check(name, value, whole())
    if cohort > fleet:
        raise InvalidInputError(
            f"the cohort is {cohort} of {fleet} devices, expected at most as many as there are"
        )
    return -(-rounds * cohort // fleet)


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


def epsilon(
    adversary: Adversary,
    noise_multiplier: float,
    participations: int,
    delta: float,
    *,
    honest: tuple[int, int] | None = None,
) -> float:
    """Epsilon of a device that took part ``participations`` times in a season.

    Args:
        adversary: against whom.
        noise_multiplier: z, standard deviations of a sum's noise over a change's largest norm.
        participations: P.
        delta: of the (epsilon, delta).
        honest: for M: the least number of honest devices in a sum it can learn
            (:func:`least_honest`), and the number the multiplier counts on
            (:func:`~pocketquery.client.private.noise.counted_on`).

    Raises:
        InvalidInputError: a value out of its range, or M without ``honest``.
        MissingExtraError: dp-accounting is not installed.
    """
    check("adversary", adversary, one_of(*ADVERSARIES))
    rho = rho_of(noise_multiplier, participations)
    if adversary == "M":
        if honest is None:
            raise InvalidInputError(
                "found no number of honest devices, expected (least_honest, counted_on): a server "
                "that deviates leaves out what noise it can"
            )
        least, counted = honest
        rho *= max(1.0, counted / least)
    return epsilon_of_zcdp(rho, delta)


def multiplier_for(target: float, participations: int, delta: float) -> float:
    """The least noise multiplier whose season costs at most ``target``, against H and R.

    Raises:
        InvalidInputError: an epsilon that is not above 0, or that no multiplier reaches.
        MissingExtraError: dp-accounting is not installed.
    """
    check("epsilon", target, number(above=0))

    def epsilon_of(multiplier: float) -> float:
        return epsilon("H", multiplier, participations, delta)

    low, high = 1e-3, 1.0
    while epsilon_of(high) > target:
        low, high = high, 2.0 * high
        if high > _LARGEST_MULTIPLIER:
            raise InvalidInputError(
                f"epsilon is {target:g} at delta {delta:g}, which no noise multiplier up to "
                f"{_LARGEST_MULTIPLIER:g} reaches; ask for a larger one"
            )
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if epsilon_of(middle) > target else (low, middle)
    return high
