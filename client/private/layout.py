"""Layouts of bytes: cut into pieces of known lengths, or refused; and bitmaps."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NoReturn

import numpy as np

from pocketquery.sdk.errors import CorruptArtifactError

__all__ = ["bitmap_bytes", "cut", "equal_pieces", "members_of", "refuse", "to_bitmap"]


def to_bitmap(members: Iterable[int], size: int) -> bytes:
    """The bitmap of ``members``, whole numbers from 0 to below ``size``: ceil(size / 8) bytes,
    member j at bit j % 8 (1 is the least) of byte j // 8.
    """
    bits = np.zeros(size, np.bool_)
    bits[np.fromiter(members, np.int64)] = True
    return np.packbits(bits, bitorder="little").tobytes()


def members_of(bitmap: bytes, source: str, size: int) -> tuple[int, ...]:
    """The members of :func:`to_bitmap`, in ascending order.

    Raises:
        CorruptArtifactError: a bit beyond ``size`` is set.
    """
    bits = np.unpackbits(np.frombuffer(bitmap, np.uint8), bitorder="little")
    members: list[int] = np.flatnonzero(bits).tolist()
    if members and members[-1] >= size:
        refuse(source, f"a bitmap with bit {members[-1]} set, of {size} members")
    return tuple(members)


def bitmap_bytes(size: int) -> int:
    """How long a bitmap of ``size`` members is."""
    return math.ceil(size / 8)


def cut(data: bytes, source: str, *lengths: int | None) -> list[bytes]:
    """``data`` as pieces of these lengths; a last None takes the rest, else none may be left.

    Raises:
        CorruptArtifactError: it has another length.
    """
    expected = sum(length or 0 for length in lengths)
    open_end = lengths[-1:] == (None,)
    if len(data) < expected or (len(data) > expected and not open_end):
        bound = "at least " if open_end else ""
        refuse(source, f"{len(data)} bytes where {bound}{expected} belong")
    pieces, start = [], 0
    for length in lengths:
        stop = len(data) if length is None else start + length
        pieces.append(bytes(data[start:stop]))
        start = stop
    return pieces


def equal_pieces(data: bytes, source: str, count: int, size: int) -> tuple[bytes, ...]:
    """``data`` as ``count`` pieces of ``size`` bytes.

    Raises:
        CorruptArtifactError: it has another length.
    """
    cut(data, source, count * size)
    return tuple(data[start : start + size] for start in range(0, len(data), size))


def refuse(source: str, problem: str) -> NoReturn:
    """Raise the error of a message called ``source`` in which ``problem`` is wrong."""
    raise CorruptArtifactError(
        f"{source} holds {problem}; it was damaged, or is of another round or version"
    )
