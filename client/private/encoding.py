"""Changes as whole numbers of steps: what can be masked, summed modulo 2**w and still be exact.

A change is clipped in its norm, then in each value, and rounded up or down at random, so that its
mean over devices has no bias. A step is a power of two: sums of codes become fixed-point sums by a
shift, exact to the bit. There is no rotation: an adapter's changes under AdamW are flatter than a
rotated vector would be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from pocketquery.client.private.masks import Keystream, RingCodes, word_type
from pocketquery.client.private.noise import LEAST_SIGMA, counted_on, delta, sigma
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.settings.declaration import Settings
from pocketquery.sdk.validation import Rule, check, number, whole

__all__ = ["Encoding", "choose_encoding", "encode", "largest_total", "totals", "value_range"]

_WIDE_SIZE = 4096  # vectors up to it take 32 bits a value: the bytes do not matter there
_WIDE_BITS = 10  # steps of 32 bits need not be finer than this much below the norm
_FINEST, _COARSEST = 40, -40  # exponents; sums of a round have at most 40 bits after the point
_EXPONENTS = range(_FINEST, _COARSEST - 1, -1)
_LARGEST = 2.0**40  # of what is measured in values: their squares stay finite
_USED_SHARE = 0.75  # of what the codes' sum may be, so that garbage is noticed
_TAIL = 6.5  # standard deviations of noise that the sum has room for


@dataclass(frozen=True)
class Encoding(Settings):
    """How the changes of a round become codes.

    Raises:
        InvalidInputError: one of them cannot be.
    """

    size: Annotated[int, whole(), "values of a change"]
    bits: Annotated[
        int,
        Rule(lambda bits: type(bits) is int and bits in (16, 32), "16 or 32"),
        "of a code, 16 or 32",
    ]
    exponent: Annotated[int, whole(_COARSEST, _FINEST), "the step is 2**-exponent"]
    range: Annotated[float, number(above=0, most=_LARGEST), "no value may be further from 0"]
    clip: Annotated[float, number(above=0, most=_LARGEST), "the norm of a change, at most"]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.range / self.step >= 2 ** (self.bits - 1):
            raise InvalidInputError(
                f"values up to {self.range:g} in steps of 2**-{self.exponent} do not fit into "
                f"codes of {self.bits} bits; expected a coarser step"
            )

    @property
    def step(self) -> float:
        """The size of a step."""
        return math.ldexp(1.0, -self.exponent)

    @property
    def largest_code(self) -> int:
        """The largest code of a value, without noise."""
        return math.ceil(self.range / self.step)


def value_range(steps: int, learning_rate: float) -> float:
    """How far a value can move in a local training: AdamW takes at most about one learning rate a
    step; a quarter more is to spare."""
    return 1.25 * steps * learning_rate


def choose_encoding(
    size: int,
    group: int,
    clip: float,
    range: float,
    noise_multiplier: float = 0.0,
    counted: int | None = None,
) -> Encoding:
    """The encoding with the finest step at which the sum of a whole group fits its words.

    Args:
        size: values of a change.
        group: devices whose codes are summed.
        clip: the norm of a change, at most.
        range: no value may be further from 0; see :func:`value_range`.
        noise_multiplier: of noise added on devices; 0 for none.
        counted: how many devices' noise is counted on; None for
            :func:`~pocketquery.client.private.noise.counted_on` of the group.

    Raises:
        InvalidInputError: no step fits, or with the one that does the noise of a device would be
            below two steps, where its sum is not accounted for.
    """
    check("noise_multiplier", noise_multiplier, number(0))
    check("group", group, whole(2 if noise_multiplier else 1))
    bits = 32 if size <= _WIDE_SIZE else 16
    coarsest = Encoding(size, bits, _COARSEST, range, clip)
    finest = math.floor(_WIDE_BITS - math.log2(clip)) if bits == 32 else _FINEST
    most = _USED_SHARE * 2 ** (bits - 1)
    for exponent in _EXPONENTS:
        if exponent > finest or math.ldexp(range, exponent) > most:
            continue
        encoding = replace(coarsest, exponent=exponent)
        deviation = 0.0
        if noise_multiplier:
            many = counted_on(group) if counted is None else counted
            deviation = sigma(noise_multiplier, encoding, many)
        if largest_total(encoding, group, deviation) > most:
            continue
        if noise_multiplier and deviation < LEAST_SIGMA:
            raise InvalidInputError(
                f"in a group of {group} the noise of a device would have a standard deviation of "
                f"{deviation:.2f} steps, expected at least {LEAST_SIGMA:g}; raise "
                "noise_multiplier, or use smaller groups or a smaller adapter"
            )
        return encoding
    spare = counted is not None and counted < counted_on(group)
    raise InvalidInputError(
        f"no step lets {group} changes within {range:g} and their noise be summed in {bits} bits; "
        "lower range, the group's size or noise_multiplier"
        + (", or raise largest-group" if noise_multiplier and spare else "")
    )


def encode(
    values: NDArray[np.float32],
    encoding: Encoding,
    coins: Keystream,
    noise: NDArray[np.int64] | None = None,
) -> RingCodes:
    """The codes of a change: clipped, rounded at random, with noise, modulo 2**w.

    Args:
        values: float32 (size,), finite.
        encoding: the round's.
        coins: 32 bits of it round a value. They are drawn again until the norm of the rounded
            change is at most :func:`~pocketquery.client.private.noise.delta`.
        noise: int64 (size,) in steps, added to the codes; None for none.

    Returns:
        uint16 or uint32 (size,), two's complement.

    Raises:
        InvalidInputError: another shape, or values that are not finite.
    """
    if values.shape != (encoding.size,) or not np.isfinite(values).all():
        raise InvalidInputError(
            f"found a change of shape {values.shape}, expected {encoding.size} finite values"
        )
    exact = values.astype(np.float64)
    norm = math.sqrt(float(np.square(exact).sum()))
    if norm > encoding.clip:
        exact *= encoding.clip / norm
    scaled = np.clip(exact, -encoding.range, encoding.range) / encoding.step
    bound = delta(encoding) / encoding.step
    while True:
        tosses = coins.words(encoding.size, np.uint32)
        codes = np.floor(scaled + tosses * 2.0**-32)
        if float(np.square(codes).sum()) <= bound * bound:
            break
    whole_codes = codes.astype(np.int64)
    return (whole_codes if noise is None else whole_codes + noise).astype(word_type(encoding.bits))


def totals(codes: RingCodes, encoding: Encoding) -> NDArray[np.int64]:
    """The sum behind a sum of codes modulo 2**w, in steps: int64 (size,).

    Right where no total is beyond half of 2**w, as :func:`choose_encoding` sees to; held against
    :func:`largest_total`, garbage shows.
    """
    signed = np.int16 if encoding.bits == 16 else np.int32
    return codes.view(signed).astype(np.int64)


def largest_total(encoding: Encoding, survivors: int, sigma: float) -> int:
    """No total of ``survivors`` honest changes is further from 0, in steps.

    Args:
        encoding: the round's.
        survivors: how many changes were summed.
        sigma: the standard deviation of the noise of each, in steps; 0 for none. Noise passes the
            6.5 standard deviations it is given once in 10**10 values.
    """
    return survivors * encoding.largest_code + math.floor(_TAIL * sigma * math.sqrt(survivors))
