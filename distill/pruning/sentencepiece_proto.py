"""The little of protobuf's wire format that taking pieces out of a sentencepiece model needs.

A sentencepiece model is a ``ModelProto``: field 1 repeats the pieces in the order of their numbers
(in each, field 1 is its text and field 3 its type, 1 for ordinary text), field 2 is the trainer's
specification (in which field 3 is the model type, 1 for unigram), and the rest is carried over as
it is. The package's generated module demands one exact generation of
protobuf's runtime, which other dependencies exclude.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pocketquery.sdk.errors import CorruptArtifactError

__all__ = ["SentencePieceModel"]

_PIECE, _TRAINER = 1, 2  # fields of the model
_TEXT, _TYPE = 1, 3  # fields of a piece and, the latter, of the trainer's specification
_NORMAL = _UNIGRAM = 1  # the default types
_FIXED_WIDTH = {1: 8, 5: 4}  # wire types 64-bit and 32-bit


class _Field(NamedTuple):
    number: int
    value: int | bytes
    raw: bytes


class SentencePieceModel:
    """The pieces of a sentencepiece model, to be chosen from and ordered anew.

    Attributes:
        is_unigram: whether texts are cut by the pieces' probabilities (and not by merges, say).

    Raises:
        CorruptArtifactError: the bytes are not a protobuf message.
    """

    def __init__(self, data: bytes) -> None:
        fields = list(_fields(data))
        self._pieces = [field for field in fields if field.number == _PIECE]
        self._rest = b"".join(field.raw for field in fields if field.number != _PIECE)
        trainers = [field for field in fields if field.number == _TRAINER]
        self.is_unigram = all(_member(trainer, _TYPE, _UNIGRAM) == _UNIGRAM for trainer in trainers)

    def __len__(self) -> int:
        return len(self._pieces)

    def normal_pieces(self) -> dict[int, str]:
        """Number and text of the pieces of ordinary text (no control symbol, byte, user's own)."""
        return {
            number: bytes(_member(piece, _TEXT, b"")).decode("utf-8")
            for number, piece in enumerate(self._pieces)
            if _member(piece, _TYPE, _NORMAL) == _NORMAL
        }

    def with_pieces(self, order: Iterable[int]) -> bytes:
        """The model with these pieces alone, in this order."""
        return b"".join(self._pieces[number].raw for number in order) + self._rest


def _member(message: _Field, number: int, default: int | bytes) -> int | bytes:
    """The last field ``number`` of a message inside a message."""
    if not isinstance(message.value, bytes):
        return default
    values = [field.value for field in _fields(message.value) if field.number == number]
    return values[-1] if values else default


def _fields(data: bytes) -> Iterator[_Field]:
    position = 0
    try:
        while position < len(data):
            start = position
            key, position = _varint(data, position)
            value, position = _value(data, position, key & 7)
            yield _Field(key >> 3, value, data[start:position])
    except IndexError:
        raise CorruptArtifactError(
            f"tokenizer.model: found bytes that are not a sentencepiece model at {position} of "
            f"{len(data)}; use the file the encoder was trained with, unchanged"
        ) from None


def _value(data: bytes, position: int, wire_type: int) -> tuple[int | bytes, int]:
    if wire_type == 0:
        return _varint(data, position)
    if wire_type == 2:
        length, position = _varint(data, position)
    elif wire_type in _FIXED_WIDTH:
        length = _FIXED_WIDTH[wire_type]
    else:
        raise IndexError(wire_type)
    if position + length > len(data):
        raise IndexError(position)
    return data[position : position + length], position + length


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
