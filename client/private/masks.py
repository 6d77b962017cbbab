"""Who masks with whom, and the masks: a ring of neighbours, ChaCha20, sums modulo 2**w.

Each device adds a mask of its own and, for each neighbour, one that the neighbour subtracts (or the
other way round: the lower position adds). In the sum over all devices the pairwise masks cancel
exactly, since integers modulo 2**16 or 2**32 do; a single masked vector is uniform to anybody who
lacks one of its keys. The graph of neighbours is that of Bell et al., CCS 2020 (ePrint 2020/704),
section 3.2: places on a ring in random order, each joined to the nearest on both sides.
"""

from __future__ import annotations

import hashlib
import itertools
import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, overload

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from numpy.typing import NDArray

from pocketquery.sdk.errors import InvalidInputError

__all__ = [
    "RingCodes",
    "Keystream",
    "add_masks",
    "keystream",
    "neighbours",
    "pair_sign",
    "word_type",
]

# Residues modulo 2**16 or 2**32, the arithmetic of numpy's unsigned integers.
RingCodes: TypeAlias = NDArray[np.unsignedinteger[Any]]

_FOUR_DRAWS = struct.Struct(">4Q")  # draws of a block of SHA-256
_DRAW_RANGE = 2**64
_NONCE = bytes(16)  # every key is used for one stream, so the nonce may be constant


class Keystream:
    """The ChaCha20 keystream (RFC 8439, counter and nonce zero) of a key, read from its start.

    Args:
        key: 32 bytes, derived for this stream alone.
    """

    def __init__(self, key: bytes) -> None:
        self._cipher = Cipher(ChaCha20(key, _NONCE), mode=None).encryptor()

    def read(self, size: int) -> bytes:
        """The next ``size`` bytes."""
        return self._cipher.update(bytes(size))

    def words(self, count: int, dtype: type[np.unsignedinteger[Any]]) -> RingCodes:
        """The next ``count`` little-endian words of an unsigned ``dtype``."""
        layout = np.dtype(dtype)
        words = np.frombuffer(self.read(count * layout.itemsize), layout.newbyteorder("<"))
        return words.astype(layout, copy=False)


def word_type(bits: int) -> type[np.unsignedinteger[Any]]:
    """The dtype of codes of ``bits`` bits.

    Raises:
        InvalidInputError: neither 16 nor 32.
    """
    if bits == 16:
        return np.uint16
    if bits == 32:
        return np.uint32
    raise InvalidInputError(f"codes have 16 or 32 bits, found {bits}")


def keystream(key: bytes, count: int, bits: int) -> RingCodes:
    """The mask of ``key``: uint16 or uint32 (count,).

    Raises:
        InvalidInputError: ``bits`` is neither 16 nor 32.
    """
    return Keystream(key).words(count, word_type(bits))


def pair_sign(position: int, neighbour: int) -> int:
    """How ``position`` adds the mask it shares with ``neighbour``: 1, or -1 to subtract it."""
    return 1 if position < neighbour else -1


def add_masks(
    codes: RingCodes, position: int, self_key: bytes, pair_keys: Mapping[int, bytes], sign: int = 1
) -> RingCodes:
    """``codes`` and the masks of the device at ``position``, modulo 2**w; a new array.

    Args:
        codes: uint16 or uint32 (n,).
        position: the device's place in the group.
        self_key: of its own mask, 32 bytes; empty for none of it.
        pair_keys: by a neighbour's position, the key of the mask they share.
        sign: -1 takes the same masks away again, from a sum, say.
    """
    bits = codes.dtype.itemsize * 8
    masked = codes.copy()
    signed = [(self_key, sign)] if self_key else []
    signed += [(key, sign * pair_sign(position, other)) for other, key in pair_keys.items()]
    for key, direction in signed:
        mask = keystream(key, codes.size, bits)
        (np.add if direction > 0 else np.subtract)(masked, mask, out=masked)
    return masked


@lru_cache(maxsize=2)
def neighbours(seed: bytes, size: int, degree: int) -> Sequence[tuple[int, ...]]:
    """The neighbours of each of ``size`` positions, in ascending order; equal for equal seeds.

    A device asks for its own alone, so they are worked out as they are asked for; and in every
    stage again, so the last rings are kept.

    Args:
        seed: of the ring's order.
        size: how many devices.
        degree: how many neighbours each has: even, or ``size - 1`` and above, which is everybody.

    Raises:
        InvalidInputError: fewer than two devices, or a degree that no ring has.
    """
    if size < 2:
        raise InvalidInputError(f"a group of {size} has no neighbours, expected at least 2 devices")
    if degree < size - 1 and (degree < 2 or degree % 2):
        raise InvalidInputError(
            f"found {degree} neighbours in a group of {size}, expected an even number from 2, "
            f"or {size - 1}"
        )
    return _Ring(_shuffled(seed, size) if degree < size - 1 else range(size), degree)


class _Ring(Sequence[tuple[int, ...]]):
    """Positions in the order of their places on a ring, each joined to the nearest."""

    def __init__(self, order: Sequence[int], degree: int) -> None:
        self._order = order
        self._places = {position: place for place, position in enumerate(order)}
        self._half = min(degree // 2, len(order))
        self._complete = degree >= len(order) - 1
        self._neighbours: dict[int, tuple[int, ...]] = {}

    def __len__(self) -> int:
        return len(self._order)

    @overload
    def __getitem__(self, index: int) -> tuple[int, ...]: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[tuple[int, ...], ...]: ...
    def __getitem__(self, index: int | slice) -> Any:
        size = len(self._order)
        if isinstance(index, slice):
            return tuple(self[position] for position in range(size)[index])
        position = range(size)[index]
        if position not in self._neighbours:
            self._neighbours[position] = self._near(position)
        return self._neighbours[position]

    def _near(self, position: int) -> tuple[int, ...]:
        size, place = len(self._order), self._places[position]
        if self._complete:
            return tuple(other for other in range(size) if other != position)
        steps = range(1, self._half + 1)
        near = (self._order[(place + step) % size] for step in (*steps, *(-one for one in steps)))
        return tuple(sorted(near))


def _shuffled(seed: bytes, size: int) -> list[int]:
    """0 .. size - 1 by Fisher and Yates' shuffle; each block of SHA-256 gives four draws."""
    draws = _draws(seed)
    order = list(range(size))
    for last in range(size - 1, 0, -1):
        choices = last + 1
        fair = _DRAW_RANGE - _DRAW_RANGE % choices  # above it, some remainders would be likelier
        draw = next(draws)
        while draw >= fair:
            draw = next(draws)
        chosen = draw % choices
        order[last], order[chosen] = order[chosen], order[last]
    return order


def _draws(seed: bytes) -> Iterator[int]:
    """Uniform integers of 64 bits."""
    for counter in itertools.count():
        block = hashlib.sha256(seed + counter.to_bytes(8, "big")).digest()
        yield from _FOUR_DRAWS.unpack(block)
