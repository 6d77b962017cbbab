"""Discrete Gaussian noise for differential privacy, drawn on the device in whole steps.

The law is N_Z(0, sigma**2): the probability of k is proportional to exp(-k**2 / (2 sigma**2))
(Canonne et al., NeurIPS 2020). Integers leave no room for attacks on floating-point samplers
(Mironov, CCS 2012), and the sum over devices is accounted for exactly (Kairouz, Liu and Steinke,
ICML 2021, sections 3 and 4).

Draws invert a table of the cumulative probabilities in units of 2**-128, out to 13 sigma, made with
integers. It is the same on every machine, and its distance from the law (in total variation) is at
most the number of its entries times 2**-128, plus 2**-125 beyond its ends.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pocketquery.client.private.masks import Keystream
from pocketquery.sdk.errors import InvalidInputError

if TYPE_CHECKING:
    from pocketquery.client.private.encoding import Encoding

__all__ = ["LEAST_SIGMA", "Table", "counted_on", "delta", "draw", "rho", "sigma"]

# Below two steps the sum of discrete Gaussians is no longer close to one.
LEAST_SIGMA = 2.0
_MOST_SIGMA = 100_000.0  # a table of a million entries
_REACH = 13
_BITS = 320  # after the point of a density
_DIGITS = 110  # decimals that hold so many bits
_SCALE_BITS = 128
_LOW = 2**64 - 1


def counted_on(group: int) -> int:
    """How many devices' noise is relied on: four fifths of the group must survive, and a fifth of
    these may be hostile or leave theirs out."""
    return group * 64 // 100


def delta(encoding: Encoding) -> float:
    """The most that the norm of a change can be once it is rounded to steps, in its own unit.

    Kairouz, Liu and Steinke 2021, section 3: randomised rounding, repeated until the norm is below
    this bound, which at least 39 of 100 draws are.
    """
    size, step, clip = encoding.size, encoding.step, encoding.clip
    root = math.sqrt(size)
    whole = clip + step * root
    # Multiplied, for the power of libm is not rounded alike everywhere.
    likely = clip * clip + step * step * size / 4 + step * (clip + step * root / 2)
    return math.sqrt(min(whole * whole, likely))


def sigma(noise_multiplier: float, encoding: Encoding, counted_on: int) -> float:
    """The standard deviation of one device's noise, in steps.

    Args:
        noise_multiplier: z, of the sum's noise over its sensitivity.
        encoding: the round's.
        counted_on: of how many devices the noise must add up to that.
    """
    return noise_multiplier * delta(encoding) / encoding.step / math.sqrt(counted_on)


def rho(noise_multiplier: float, encoding: Encoding, counted_on: int) -> float:
    """The zero-concentrated differential privacy of one round's sum.

    Kairouz, Liu and Steinke 2021, theorem 1: that of a continuous Gaussian, 1 / (2 z**2), and what
    the sum of discrete ones may differ from a discrete one.
    """
    deviation = sigma(noise_multiplier, encoding, counted_on)
    j = np.arange(1, counted_on)
    off = 10 * float(np.exp(-2 * (math.pi * deviation) ** 2 * j / (j + 1)).sum())
    ratio = delta(encoding) / encoding.step / (math.sqrt(counted_on) * deviation)
    size = encoding.size
    return min(math.sqrt(ratio**2 + off * size / 2), ratio + off * math.sqrt(size)) ** 2 / 2


@dataclass(frozen=True)
class Table:
    """Cumulative probabilities of a discrete Gaussian law.

    Attributes:
        sigma: its parameter, in steps.
        reach: the largest draw.
        high: uint64 (2 reach,), of the probability of at most -reach, -reach + 1, ... reach - 1 in
            units of 2**-128 the upper 64 bits.
        low: uint64 (2 reach,), the lower 64 bits.
    """

    sigma: float
    reach: int
    high: NDArray[np.uint64]
    low: NDArray[np.uint64]

    @staticmethod
    @lru_cache(maxsize=4)
    def of(sigma: float) -> Table:
        """The table for ``sigma`` steps; made once.

        Raises:
            InvalidInputError: ``sigma`` is below 2 or above 100,000.
        """
        if not LEAST_SIGMA <= sigma <= _MOST_SIGMA:
            raise InvalidInputError(
                f"the noise of a device has a standard deviation of {sigma:g} steps, expected "
                f"{LEAST_SIGMA:g} to {_MOST_SIGMA:g}; change the noise multiplier, the group's "
                "size or the step"
            )
        reach = math.ceil(_REACH * sigma)
        half = _densities(sigma, reach)
        whole = 2 * sum(half) - half[0]
        reached = itertools.accumulate(reversed(half[1:]))
        below = [(density << _SCALE_BITS) // whole for density in reached]  # P(X <= k), k < 0
        last = (1 << _SCALE_BITS) - 1
        entries = below + [min(last + 1 - entry, last) for entry in reversed(below)]
        high = np.array([entry >> 64 for entry in entries], np.uint64)
        return Table(sigma, reach, high, np.array([entry & _LOW for entry in entries], np.uint64))


def draw(table: Table, stream: Keystream, count: int) -> NDArray[np.int64]:
    """``count`` independent draws, int64 (count,); each takes 16 bytes of ``stream``.

    A draw is the number of entries that a uniform integer of 128 bits has reached. Nearly always
    its upper half decides.
    """
    uniform = stream.words(2 * count, np.uint64).reshape(count, 2)
    places = np.searchsorted(table.high, uniform[:, 0], side="left")
    ends = table.high.take(places, mode="clip") == uniform[:, 0]
    for place in np.flatnonzero(ends):
        entry = int(places[place])
        upper, lower = uniform[place]
        while entry < table.high.size and table.high[entry] == upper and table.low[entry] <= lower:
            entry += 1
        places[place] = entry
    return places.astype(np.int64) - table.reach


def _densities(sigma: float, reach: int) -> list[int]:
    """exp(-k**2 / (2 sigma**2)) for k from 0 to ``reach``, in units of 2**-320: each is its
    predecessor times a factor that itself shrinks by a constant one, far faster than an exponential
    function each."""
    with localcontext() as context:
        context.prec = _DIGITS
        ratio = int((-1 / (2 * Decimal(sigma) ** 2)).exp() * 2**_BITS)
    shrink = ratio**2 >> _BITS
    densities = [1 << _BITS]
    for _ in range(reach):
        densities.append(densities[-1] * ratio >> _BITS)
        ratio = ratio * shrink >> _BITS
    return densities
