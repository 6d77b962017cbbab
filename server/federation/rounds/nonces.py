"""A set of nonces that is small and can be added to without copying all of it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.errors import CorruptArtifactError

__all__ = ["NonceSet"]

_BYTES = 16
_BUCKETS = 256


@dataclass(frozen=True)
class NonceSet:
    """Nonces, each 32 hexadecimal digits, kept as 16 bytes; immutable.

    A round is a value: receiving an update gives a new one and leaves the old one as it was. A
    frozenset would be copied whole for each update, and takes 200 bytes a nonce. Here the nonces
    lie sorted in 256 byte strings by their first byte; adding one copies a 256th part. A nonce is
    the device's choice, so all may share a first byte: that costs time, not correctness.
    """

    buckets: tuple[bytes, ...] = (b"",) * _BUCKETS

    @classmethod
    def of(cls, nonces: Iterable[bytes]) -> NonceSet:
        """The set of ``nonces``, 16 bytes each."""
        buckets: list[list[bytes]] = [[] for _ in range(_BUCKETS)]
        for nonce in sorted(set(nonces)):
            buckets[nonce[0]].append(nonce)
        return cls(tuple(b"".join(bucket) for bucket in buckets))

    @classmethod
    def of_array(cls, array: NDArray[np.uint8]) -> NonceSet:
        """The set that :meth:`to_array` wrote.

        Raises:
            CorruptArtifactError: not uint8 (n, 16).
        """
        if array.dtype != np.uint8 or array.ndim != 2 or array.shape[1] != _BYTES:
            raise CorruptArtifactError(
                f"found nonces of {array.dtype} {list(array.shape)}, expected uint8 [n, {_BYTES}]"
            )
        return cls.of(row.tobytes() for row in array)

    def to_array(self) -> NDArray[np.uint8]:
        """The nonces in order, uint8 (n, 16): equal sets give equal bytes."""
        return np.frombuffer(b"".join(self.buckets), np.uint8).reshape(-1, _BYTES)

    def add(self, nonce: str) -> NonceSet:
        """This set and ``nonce``."""
        return self.add_all([nonce])

    def add_all(self, nonces: Iterable[str]) -> NonceSet:
        """This set and ``nonces``."""
        buckets = list(self.buckets)
        for raw in map(bytes.fromhex, nonces):
            bucket = buckets[raw[0]]
            place = _place(bucket, raw)
            if bucket[place : place + _BYTES] != raw:
                buckets[raw[0]] = bucket[:place] + raw + bucket[place:]
        return NonceSet(tuple(buckets))

    def __contains__(self, nonce: object) -> bool:
        raw = bytes.fromhex(str(nonce))
        bucket = self.buckets[raw[0]]
        place = _place(bucket, raw)
        return bucket[place : place + _BYTES] == raw

    def __iter__(self) -> Iterator[bytes]:
        for row in self.to_array():
            yield row.tobytes()

    def __len__(self) -> int:
        return sum(map(len, self.buckets)) // _BYTES


def _place(bucket: bytes, raw: bytes) -> int:
    """Where in ``bucket`` the nonce is, or would be."""
    rows = range(0, len(bucket), _BYTES)
    place = bisect_left(rows, raw, key=lambda start: bucket[start : start + _BYTES])
    return place * _BYTES
