"""Shamir's secret sharing modulo the prime 2**256 - 189: any ``threshold`` shares give the secret.

A secret is the constant term of a polynomial of degree threshold - 1 whose other coefficients are
uniform; share i is its value at i. Fewer shares say nothing (Shamir, CACM 22(11), 1979). The prime
is the largest below 2**256, so that a share of a 32-byte key has 32 bytes, too.

Python's integers do not take constant time: other code on the same device might measure them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import zip_longest

from pocketquery.sdk.errors import InvalidInputError

__all__ = ["MODULUS", "SHARE_BYTES", "join", "join_despite", "split"]

MODULUS = 2**256 - 189
SHARE_BYTES = 32


def split(secret: bytes, threshold: int, coefficients: Sequence[int], count: int) -> list[bytes]:
    """``count`` shares of ``secret``, the first for x = 1.

    Args:
        secret: 32 bytes, read as a little-endian integer.
        threshold: how many shares give it back.
        coefficients: of x, x**2, ...: threshold - 1 uniform integers below :data:`MODULUS`.
        count: from ``threshold``.

    Returns:
        Little-endian integers of 32 bytes.

    Raises:
        InvalidInputError: the numbers do not go together, or the secret is above the modulus (one
            of 2**248 uniform ones is).
    """
    if not 1 <= threshold <= count or len(coefficients) != threshold - 1:
        raise InvalidInputError(
            f"found {len(coefficients)} coefficients, threshold {threshold} and {count} shares; "
            "expected one coefficient less than the threshold, and no fewer shares than it"
        )
    constant = _element(secret)
    if not all(0 <= coefficient < MODULUS for coefficient in coefficients):
        raise InvalidInputError("a coefficient is out of the field; expected 0 to 2**256 - 190")
    shares = []
    for x in range(1, count + 1):
        value = 0
        for coefficient in reversed(coefficients):
            value = (value * x + coefficient) % MODULUS
        shares.append(_bytes((value * x + constant) % MODULUS))
    return shares


def join(shares: Mapping[int, bytes], threshold: int) -> bytes:
    """The secret behind ``shares``.

    Args:
        shares: by x, from 1; the ``threshold`` of the lowest x are used. A wrong one among them
            gives a wrong secret, which only a caller who knows something of the secret can notice.
        threshold: that of :func:`split`.

    Raises:
        InvalidInputError: too few shares, or one that is none.
    """
    if len(shares) < threshold:
        raise InvalidInputError(
            f"found {len(shares)} shares, expected at least {threshold} to restore the secret"
        )
    places = tuple(sorted(shares)[:threshold])
    if not places or places[0] < 1:
        raise InvalidInputError(f"found shares at {places[:1]}, expected places from 1")
    secret = sum(
        weight * _element(shares[x]) for x, weight in zip(places, _weights(places), strict=True)
    )
    return _bytes(secret % MODULUS)


def join_despite(shares: Mapping[int, bytes], threshold: int) -> bytes | None:
    """The secret behind ``shares`` some of which are wrong; None where none is to be found.

    It is found where at most half of those beyond the threshold are wrong. Where more are, there
    is none, or one that somebody chose: hold it against what is known of the secret.

    Gao, "A New Algorithm for Decoding Reed-Solomon Codes" (2003): take the polynomial through all
    shares and the one that is zero at their places. Euclid's algorithm, stopped halfway, leaves the
    dealer's polynomial times one that is zero where a share is wrong.

    Args:
        shares: by x, from 1, in any number.
        threshold: that of :func:`split`.
    """
    points = {x: int.from_bytes(share, "little") for x, share in shares.items()}
    points = {x: value for x, value in points.items() if value < MODULUS}
    if len(points) < threshold:
        return None
    zeros, through = [1], [0]
    for x, value in points.items():  # Newton's interpolation, a place at a time
        missing = (value - _value(through, x)) * pow(_value(zeros, x), -1, MODULUS)
        through = _combined(through, zeros, missing)
        zeros = _combined([0, *zeros], zeros, -x)
    before, rest, factor_before, factor = zeros, through, [0], [1]
    while 2 * (len(rest) - 1) >= len(points) + threshold:
        quotient, remainder = _divided(before, rest)
        factors = factor_before
        for power, coefficient in enumerate(quotient):
            factors = _combined(factors, [0] * power + factor, -coefficient)
        before, rest, factor_before, factor = rest, remainder, factor, factors
    dealt, remainder = _divided(rest, factor)
    if any(remainder) or len(dealt) > threshold:
        return None
    return _bytes(dealt[0])


def _value(polynomial: Sequence[int], x: int) -> int:
    """At x; coefficients are those of 1, x, x**2, ..."""
    value = 0
    for coefficient in reversed(polynomial):
        value = (value * x + coefficient) % MODULUS
    return value


def _combined(left: Sequence[int], right: Sequence[int], times: int) -> list[int]:
    """left + times * right, without leading zeros but for the polynomial 0."""
    sums = [(one + times * other) % MODULUS for one, other in zip_longest(left, right, fillvalue=0)]
    while len(sums) > 1 and not sums[-1]:
        sums.pop()
    return sums


def _divided(dividend: Sequence[int], divisor: Sequence[int]) -> tuple[list[int], list[int]]:
    """Quotient and remainder; the divisor is not 0."""
    rest, quotient = list(dividend), [0] * max(1, len(dividend) - len(divisor) + 1)
    inverse = pow(divisor[-1], -1, MODULUS)
    for power in range(len(dividend) - len(divisor), -1, -1):
        times = rest[power + len(divisor) - 1] * inverse % MODULUS
        quotient[power] = times
        for place, coefficient in enumerate(divisor):
            rest[power + place] = (rest[power + place] - times * coefficient) % MODULUS
    return _combined(quotient, [0], 1), _combined(rest[: max(1, len(divisor) - 1)], [0], 1)


@lru_cache(maxsize=1024)
def _weights(places: tuple[int, ...]) -> tuple[int, ...]:
    """Lagrange's weights of the values at ``places`` for the value at 0."""
    whole = math.prod(places)
    return tuple(
        whole
        * pow(x * math.prod(other - x for other in places if other != x), -1, MODULUS)
        % MODULUS
        for x in places
    )


def _element(data: bytes) -> int:
    value = int.from_bytes(data, "little")
    if len(data) != SHARE_BYTES or value >= MODULUS:
        raise InvalidInputError(
            f"found {len(data)} bytes that are no element of the field, expected {SHARE_BYTES} "
            "with a value below 2**256 - 189"
        )
    return value


def _bytes(value: int) -> bytes:
    return value.to_bytes(SHARE_BYTES, "little")
