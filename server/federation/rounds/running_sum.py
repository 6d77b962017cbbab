"""A weighted sum of vectors that forgets each vector, and whose order does not matter to the bit.

Floating-point addition is not associative: the same replies in another order give another sum, and
a round could not be resumed, repeated or checked. Here each value is scaled by 2**bits, rounded to
an integer and added in int64; integers add in any order to the same sum. Rounding costs at most
half of 2**-bits a value and update, far below the 8 bits the update came in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.errors import InvalidInputError

__all__ = ["LEAST_BITS", "MOST_BITS", "RunningSum", "fraction_bits"]

MOST_BITS = 40
LEAST_BITS = 24
_CAPACITY = 2**63 - 1
_ROUNDED_BY_ADDING = 2**51
_LEADING = np.float64(1.5 * 2**52)
_LEADING_BITS = _LEADING.view(np.int64)
_BLOCK = 32_768  # values at once: what lies between stays in the processor's cache


def fraction_bits(largest_sum: float) -> int:
    """How many bits after the point let sums up to ``largest_sum`` stay within int64, at most 40.

    Raises:
        InvalidInputError: fewer than 24 would, and rounding would show in the mean.
    """
    # One bit to spare for the rounding of each value.
    bits = min(MOST_BITS, 62 - math.ceil(math.log2(largest_sum)))
    if bits < LEAST_BITS:
        raise InvalidInputError(
            f"sums up to {largest_sum:g} leave {bits} bits after the point, expected at least "
            f"{LEAST_BITS}; lower clients_per_round, largest_weight or clip_norm"
        )
    return bits


@dataclass(frozen=True)
class RunningSum:
    """A sum of weighted vectors; immutable, of constant size.

    Attributes:
        totals: int64 (n,), the sum of weight x value x 2**bits.
        weight: the sum of the weights x 2**bits.
        count: how many vectors were added.
        reach: no total can be larger than this, whatever the signs were.
        bits: bits after the point.
    """

    totals: NDArray[np.int64]
    weight: int
    count: int
    reach: int
    bits: int

    @classmethod
    def empty(cls, size: int, bits: int = MOST_BITS) -> RunningSum:
        """The sum of nothing, over vectors of ``size`` values."""
        return cls(np.zeros(size, np.int64), 0, 0, 0, bits)

    @classmethod
    def of(
        cls,
        values: NDArray[np.floating],
        weight: float,
        factor: float = 1.0,
        *,
        bits: int = MOST_BITS,
    ) -> RunningSum:
        """The sum of ``weight * factor * values`` alone; :meth:`add` says what these are.

        Raises:
            InvalidInputError: it might leave int64.
        """
        fixed = round(math.ldexp(weight, bits))
        scale = fixed * factor
        peak = max(float(values.max(initial=0)), -float(values.min(initial=0)))
        reach = cls.empty(0, bits)._checked_reach(math.ceil(peak * scale) + 1)
        totals = np.empty(values.shape, np.int64)
        for start in range(0, totals.size, _BLOCK):
            part = slice(start, start + _BLOCK)
            scaled = values[part].astype(np.float64)
            np.multiply(scaled, scale, out=scaled)
            if reach < _ROUNDED_BY_ADDING:
                # Adding it leaves no bit for a fraction, so rounds, half to even as rint does; and
                # what is below its leading bits is the integer. A cast would take three times as
                # long.
                np.add(scaled, _LEADING, out=scaled)
                np.subtract(scaled.view(np.int64), _LEADING_BITS, out=totals[part])
            else:
                totals[part] = np.rint(scaled, out=scaled)
        return cls(totals, fixed, 1, reach, bits)

    @classmethod
    def of_totals(
        cls,
        totals: NDArray[np.int64],
        exponent: int,
        count: int,
        *,
        shares: int | None = None,
        bits: int = MOST_BITS,
    ) -> RunningSum:
        """The sum of ``count`` vectors of weight 1 that is known in steps; exact.

        Args:
            totals: int64 (n,), in steps of 2**-exponent.
            exponent: at most ``bits``.
            count: how many vectors it holds.
            shares: what the mean divides by (default: ``count``).
            bits: bits after the point.

        Raises:
            InvalidInputError: the steps are finer than ``bits``, or the sum might leave int64.
        """
        if exponent > bits:
            raise InvalidInputError(
                f"steps of 2**-{exponent} are finer than the {bits} bits after the point of the "
                "sum; use a coarser step, or more bits"
            )
        peak = max(int(totals.max(initial=0)), -int(totals.min(initial=0)))
        weight = (count if shares is None else shares) << bits
        empty = cls(totals, weight, count, 0, bits)
        reach = empty._checked_reach(peak << (bits - exponent))
        return replace(empty, totals=totals << (bits - exponent), reach=reach)

    def add(self, values: NDArray[np.float32], weight: float, factor: float = 1.0) -> RunningSum:
        """This sum and ``weight * factor * values``; ``factor`` does not count as weight.

        Args:
            values: float32 (n,), finite.
            weight: above 0.
            factor: what the values are scaled by first, say to clip them.

        Raises:
            InvalidInputError: the sum might leave int64; nothing was added.
        """
        return self.merge(RunningSum.of(values, weight, factor, bits=self.bits))

    def merge(self, other: RunningSum) -> RunningSum:
        """The sum of both, as if all vectors had been added to one.

        Raises:
            InvalidInputError: the sum might leave int64, or the two differ in their bits.
        """
        return self.merge_all([other])

    def merge_all(self, others: Sequence[RunningSum]) -> RunningSum:
        """The sum of this one and ``others``. Raises as :meth:`merge`."""
        totals, weight, count, reach = self.totals, self.weight, self.count, self.reach
        for place, other in enumerate(others):
            if self.bits != other.bits:
                raise InvalidInputError(
                    f"found sums with {self.bits} and {other.bits} bits after the point, expected "
                    "the same; both must be of one round"
                )
            weight, count, reach = weight + other.weight, count + other.count, reach + other.reach
            self._checked_reach(reach)
            totals = np.add(totals, other.totals, out=totals if place else None)
        return RunningSum(totals, weight, count, reach, self.bits)

    def mean(self) -> NDArray[np.float64]:
        """The weighted mean, float64 (n,).

        Raises:
            InvalidInputError: nothing was added.
        """
        if not self.weight:
            raise InvalidInputError("the sum holds no vector, so it has no mean; add one first")
        return self.totals / np.float64(self.weight)

    def _checked_reach(self, reach: int) -> int:
        if reach > _CAPACITY:
            raise InvalidInputError(
                f"after {self.count} vectors the next could take the sum past {_CAPACITY} "
                f"(with {self.bits} bits after the point); use fewer bits, see fraction_bits()"
            )
        return reach
