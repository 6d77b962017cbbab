"""Weighted round-robin: who has which turn, in fixed shares, as a pure function of the turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Turn", "WeightedRoundRobin"]

_ROUND = 256


class Turn(NamedTuple):
    """Whose turn it is, and how many turns they had before."""

    who: int
    before: int


class WeightedRoundRobin:
    """Turns are dealt in shuffled rounds, in each of which everyone has their share.

    Dealing by quota instead of drawing keeps the shares exact, and lets turn n tell how many turns
    its owner had before without replaying them.

    Args:
        shares: positive, one a participant, in any unit; each gets one turn a round at least.
        seed: of the order within the rounds.
    """

    def __init__(self, shares: Sequence[float], seed: Sequence[int]) -> None:
        self._quotas = _quotas(np.asarray(shares, dtype=np.float64))
        self._hand = np.repeat(np.arange(len(shares)), self._quotas)
        self._seed = list(seed)
        self._dealt: tuple[int, NDArray[np.int64]] | None = None

    def __getitem__(self, number: int) -> Turn:
        round_, place = divmod(number, len(self._hand))
        if self._dealt is None or self._dealt[0] != round_:
            rng = np.random.default_rng([*self._seed, round_])
            self._dealt = (round_, rng.permutation(self._hand))
        order = self._dealt[1]
        who = int(order[place])
        earlier = int((order[:place] == who).sum())
        return Turn(who, round_ * int(self._quotas[who]) + earlier)


def _quotas(shares: NDArray[np.float64]) -> NDArray[np.int64]:
    """Turns a round of everyone, int64 (participants,): the largest remainders are rounded up."""
    exact = shares / shares.sum() * _ROUND
    quotas = np.floor(exact).astype(np.int64)
    missing = _ROUND - int(quotas.sum())
    quotas[np.argsort(quotas - exact, kind="stable")[:missing]] += 1
    at_least_one: NDArray[np.int64] = np.maximum(quotas, 1)
    return at_least_one
