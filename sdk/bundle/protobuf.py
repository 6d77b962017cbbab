"""Reading protobuf messages by field number, for the two formats we meet in it: ONNX models and
sentencepiece models. Strict: every length is checked before it is followed.

Source: https://protobuf.dev/programming-guides/encoding
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import mmap

__all__ = ["BYTES", "FIXED32", "VARINT", "fields_of", "message"]

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types: the lower three bits of a field's tag; the field's number is above them."""


def fields_of(data: bytes | mmap.mmap, begin: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Each field of the message at ``begin`` to ``end``: its tag (the field's number times eight
    plus the wire type), where its bytes begin and end, and a VARINT's value, else 0.

    Raises:
        ValueError, IndexError: the bytes are no sequence of fields.
    """
    while begin < end:
        tag = data[begin]
        begin += 1
        if tag > 0x7F:
            tag, begin = _varint(data, begin - 1)
        wire, value, stop = tag & 7, 0, begin
        if wire == BYTES:
            length = data[begin]  # a vocabulary has 250,000 of one byte: no call for them
            begin += 1
            if length > 0x7F:
                length, begin = _varint(data, begin - 1)
            stop = begin + length
        elif wire == VARINT:
            value, stop = _varint(data, begin)
        elif wire in (FIXED64, FIXED32):
            stop += 8 if wire == FIXED64 else 4
        else:
            raise ValueError(f"a field of type {wire}")
        if stop > end or not tag >> 3 or tag >> 32:
            raise ValueError("a field reaches beyond its message")
        yield tag, begin, stop, value
        begin = stop


def message(number: int, content: bytes) -> bytes:
    """``content`` as the BYTES field ``number`` of a message, below 16."""
    length, size = b"", len(content)
    while size > 0x7F:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return bytes([number << 3 | BYTES]) + length + bytes([size]) + content


def _varint(data: bytes | mmap.mmap, position: int) -> tuple[int, int]:
    byte = data[position]
    if byte < 0x80:
        return byte, position + 1
    value, shift = byte & 0x7F, 7
    for at in range(position + 1, position + 10):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64:
                break
            return value, at + 1
        shift += 7
    raise ValueError("an integer of more than 64 bits")
