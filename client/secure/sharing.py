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

from pocketquery.sdk.errors import InvalidInputError

__all__ = ["MODULUS", "SHARE_BYTES", "join", "split"]

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
            gives a wrong secret, which only whoever knows something of the secret can notice.
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
