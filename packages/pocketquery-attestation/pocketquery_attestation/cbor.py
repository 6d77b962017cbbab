"""Reads the CBOR (RFC 8949) of attestation objects: numbers, bytes, texts, arrays and maps, all of
them of a length that is said before.
"""

from __future__ import annotations

from typing import Any

__all__ = ["read_cbor"]

_MOST_DEEP = 8
_UNSIGNED, _NEGATIVE, _BYTES, _TEXT, _ARRAY, _MAP = range(6)


def read_cbor(data: bytes) -> Any:
    """The value that ``data`` is, whole: int, bytes, str, list or dict.

    Raises:
        ValueError: it is something else.
    """
    value, end = _read(data, 0, 0)
    if end != len(data):
        raise ValueError(f"found {len(data) - end} bytes after the value")
    return value


def _read(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    """The value at a place, and the place after it."""
    if depth > _MOST_DEEP:
        raise ValueError(f"found more than {_MOST_DEEP} values in each other")
    kind, length, at = _head(data, at)
    if kind == _UNSIGNED:
        return length, at
    if kind == _NEGATIVE:
        return -1 - length, at
    if kind in (_BYTES, _TEXT):
        body = data[at : at + length]
        if len(body) != length:
            raise ValueError("the data ends within a value")
        return (body if kind == _BYTES else body.decode("utf-8")), at + length
    if kind not in (_ARRAY, _MAP):
        raise ValueError(f"found a value of kind {kind}, expected 0 to 5")
    if length > len(data) - at:  # each value has a byte at least
        raise ValueError("the data ends within a value")
    values = []
    for _ in range(length * (2 if kind == _MAP else 1)):
        value, at = _read(data, at, depth + 1)
        values.append(value)
    if kind == _ARRAY:
        return values, at
    names, mapping = values[::2], {}
    for name, value in zip(names, values[1::2], strict=True):
        if not isinstance(name, int | str) or name in mapping:
            raise ValueError("found a name twice, or one that is neither number nor text")
        mapping[name] = value
    return mapping, at


def _head(data: bytes, at: int) -> tuple[int, int, int]:
    """Kind and number of the value at a place, and the place after them."""
    if at >= len(data):
        raise ValueError("the data ends before a value")
    kind, short = data[at] >> 5, data[at] & 31
    at += 1
    if short < 24:
        return kind, short, at
    if short > 27:
        raise ValueError("found a length that is not said before, expected one that is")
    size = 1 << (short - 24)
    body = data[at : at + size]
    if len(body) != size:
        raise ValueError("the data ends within a length")
    return kind, int.from_bytes(body, "big"), at + size
