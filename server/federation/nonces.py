"""A set of nonces that can be added to without copying all of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.errors import CorruptArtifactError

__all__ = ["NonceSet"]

_BYTES = 16
_BUCKETS = 256
_NOTHING: frozenset[bytes] = frozenset()


@dataclass(frozen=True)
class NonceSet:
    """Nonces, each 32 hexadecimal digits, kept as 16 bytes; immutable.

    A round is a value: receiving an update gives a new one and leaves the old one as it was. With
    plain frozensets the n-th update would copy n nonces; here they lie in 256 of them by their
    first byte, and adding one copies a 256th part. A nonce is any device's choice, so all may share
    a first byte: that costs time, not correctness.
    """

    buckets: tuple[frozenset[bytes], ...] = (_NOTHING,) * _BUCKETS

    @classmethod
    def of(cls, nonces: Iterable[bytes]) -> NonceSet:
        """The set of ``nonces``, 16 bytes each."""
        buckets: list[set[bytes]] = [set() for _ in range(_BUCKETS)]
        for nonce in nonces:
            buckets[nonce[0]].add(nonce)
        return cls(tuple(frozenset(bucket) for bucket in buckets))

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
        joined = b"".join(sorted(self))
        return np.frombuffer(joined, np.uint8).reshape(-1, _BYTES)

    def add(self, nonce: str) -> NonceSet:
        """This set and ``nonce``."""
        raw = bytes.fromhex(nonce)
        buckets = list(self.buckets)
        buckets[raw[0]] = buckets[raw[0]] | {raw}
        return NonceSet(tuple(buckets))

    def since(self, before: NonceSet) -> list[bytes]:
        """The nonces added to ``before`` to make this set, in order."""
        pairs = zip(self.buckets, before.buckets, strict=True)
        return sorted(nonce for now, then in pairs if now is not then for nonce in now - then)

    def __contains__(self, nonce: object) -> bool:
        raw = bytes.fromhex(str(nonce))
        return raw in self.buckets[raw[0]]

    def __iter__(self) -> Iterator[bytes]:
        for bucket in self.buckets:
            yield from bucket

    def __len__(self) -> int:
        return sum(map(len, self.buckets))
