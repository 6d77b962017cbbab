"""Reading a sentencepiece model, and checking all of it that the sentencepiece library uses.

The library trusts its file: a piece with a NUL or of half a million letters ends the process, as
does a normalisation that leads nowhere. So the library never sees the file: it is handed a model
made of the checked fields alone. JavaScript's reader refuses the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from pocketquery.sdk.arrays import NDArray
from pocketquery.sdk.bundle.protobuf import BYTES, FIXED32, VARINT, fields_of, message
from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.sdk.tokenizers.sentencepiece_charsmap import check_charsmap

__all__ = ["NORMAL", "SentencePieceFile", "read_sentencepiece_file"]

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
"""The types of pieces."""

_MOST_PIECES = 1 << 20
_LONGEST_PIECE = 512  # bytes; trainers stop at 64, and the library's stack at some 100,000
_MOST_NESTED = 64  # user-defined pieces that begin with one another: the library's room for them

# Fields of a ModelProto, and of the messages in it, each with its wire type.
_PIECE, _TRAINER, _NORMALIZER = (number << 3 | BYTES for number in (1, 2, 3))
_TEXT, _SCORE, _TYPE = 1 << 3 | BYTES, 2 << 3 | FIXED32, 3 << 3 | VARINT
_KIND, _BYTE_FALLBACK, _CHARSMAP = 3 << 3 | VARINT, 35 << 3 | VARINT, 2 << 3 | BYTES
_TRAINER_FIELDS = {
    _KIND,
    24 << 3 | VARINT,
    _BYTE_FALLBACK,
}  # and whether a blank comes after a word
_NAMES = {number << 3 | BYTES for number in (45, 46, 47)}  # of <unk>, <s> and </s>
_NORMALIZER_FIELDS = {_CHARSMAP, *(number << 3 | VARINT for number in (3, 4, 5))}
_UNIGRAM, _BPE = 1, 2
_BYTE_PIECE = re.compile(r"<0x[0-9A-F]{2}>")


class SentencePieceFile(NamedTuple):
    """A sentencepiece model that was checked.

    Attributes:
        pieces: the text of each.
        types: NORMAL and so on, of each.
        is_unigram: whether texts are cut by the pieces' probabilities (else by merges, BPE).
        charsmap: the normalisation, compiled; empty for none.
        model: the fields that were checked and no others: what the library may be given.
        messages: each piece as it is in the file.
        rest: the file without its pieces.
    """

    pieces: list[str]
    types: NDArray[np.uint8]
    is_unigram: bool
    charsmap: bytes
    model: bytes
    messages: list[bytes]
    rest: bytes

    def with_pieces(self, order: Iterable[int]) -> bytes:
        """The file with these pieces alone, in this order."""
        return b"".join([*(self.messages[number] for number in order), self.rest])


def read_sentencepiece_file(data: bytes) -> SentencePieceFile:
    """Parse and check the bytes of a ``tokenizer.model``.

    Raises:
        CorruptArtifactError: not a sentencepiece model (unigram or BPE), or one that the library
            cannot be trusted with; says why.
    """
    try:
        return _parsed(data)
    except (ValueError, IndexError) as error:
        raise CorruptArtifactError(
            f"tokenizer.model: found {len(data)} bytes that are not a sentencepiece model "
            f"({error}); use the file the encoder was trained with, unchanged"
        ) from error


def _parsed(data: bytes) -> SentencePieceFile:
    if not data:
        raise ValueError("no bytes")
    starts, begins, ends = list[int](), list[int](), list[int]()  # of the pieces
    others: dict[int, list[bytes]] = {_TRAINER: [], _NORMALIZER: []}
    rest: list[bytes] = []
    start = 0
    for tag, begin, end, _ in fields_of(data, 0, len(data)):
        if tag == _PIECE:
            starts.append(start)
            begins.append(begin)
            ends.append(end)
        else:
            rest.append(data[start:end])
            if tag in others:  # the same message twice is one, as protobuf has it
                others[tag].append(data[begin:end])
        start = end
    if not 0 < len(begins) <= _MOST_PIECES:
        raise ValueError(f"{len(begins) or 'no'} pieces, expected 1 to {_MOST_PIECES}")
    texts, scores, types = _fields_of_pieces(data, begins, ends)
    trainer, settings = _only(b"".join(others[_TRAINER]), _TRAINER_FIELDS | _NAMES, "trainer_spec")
    normalizer, spec = _only(b"".join(others[_NORMALIZER]), _NORMALIZER_FIELDS, "normalizer_spec")
    kind = settings.get(_KIND, _UNIGRAM)
    if kind not in (_UNIGRAM, _BPE):
        raise ValueError(f"a model of kind {kind!r}, this package knows unigram (1) and BPE (2)")
    for name in _NAMES & settings.keys():
        _bytes(settings[name]).decode("utf-8")
    if charsmap := _bytes(spec.get(_CHARSMAP, b"")):
        check_charsmap(charsmap)
    pieces = _checked(texts, scores, types, bool(settings.get(_BYTE_FALLBACK, 0)))
    messages = [data[start:end] for start, end in zip(starts, ends, strict=True)]
    model = b"".join([*messages, message(2, trainer), message(3, normalizer)])
    is_unigram = kind == _UNIGRAM
    return SentencePieceFile(pieces, types, is_unigram, charsmap, model, messages, b"".join(rest))


def _only(content: bytes, known: set[int], name: str) -> tuple[bytes, dict[int, int | bytes]]:
    """The ``known`` fields of a message, as they are in it and by tag; of each the last counts.
    Those of newer releases fall away."""
    fields, values = [], dict[int, int | bytes]()
    numbers = {tag >> 3 for tag in known}
    start = 0
    for tag, begin, end, value in fields_of(content, 0, len(content)):
        if tag in known:
            fields.append(content[start:end])
            values[tag] = content[begin:end] if tag & 7 == BYTES else value
        elif tag >> 3 in numbers:
            raise ValueError(f"field {tag >> 3} of its {name} is of another type")
        start = end
    return b"".join(fields), values


def _bytes(value: int | bytes) -> bytes:
    assert isinstance(value, bytes)  # by its tag
    return value


def _fields_of_pieces(
    data: bytes, begins: list[int], ends: list[int]
) -> tuple[list[bytes], NDArray[np.float32], NDArray[np.uint8]]:
    """Text, score and type of each piece: at once those that look as all writers write them."""
    at = np.array(begins)
    raw = np.frombuffer(data + bytes(512), np.uint8)  # nothing is read outside of it
    sizes = raw[at + 1].astype(np.int64)
    after = at + 2 + sizes  # the text
    rest = np.array(ends) - after
    typed = (rest == 7) & (raw[after + 5] == _TYPE)
    usual = (raw[at] == _TEXT) & (sizes < 0x80) & (raw[after] == _SCORE) & ((rest == 5) | typed)
    scores = raw[(after + 1)[:, None] + np.arange(4)].view("<f4")[:, 0].astype(np.float32)
    types = np.where(typed, raw[after + 6], np.uint8(NORMAL))
    texts = [data[a + 2 : b] for a, b in zip(begins, after.tolist(), strict=True)]
    for number in np.flatnonzero(~usual).tolist():
        texts[number], scores[number], types[number] = _piece(data, begins[number], ends[number])
    return texts, scores, types


def _piece(data: bytes, begin: int, end: int) -> tuple[bytes, float, int]:
    """As :func:`_fields_of_pieces`, of one."""
    text, score, kind = b"", np.float32(0), NORMAL
    seen = set[int]()
    for tag, start, stop, value in fields_of(data, begin, end):
        if tag in seen:
            raise ValueError("a piece has a field twice")
        seen.add(tag)
        if tag == _TEXT:
            text = data[start:stop]
        elif tag == _SCORE:
            score = np.frombuffer(data, "<f4", 1, start)[0]
        elif tag == _TYPE and 0 < value < 0x80:
            kind = value
        else:
            raise ValueError("a piece has a field that pieces do not have")
    return text, float(score), kind


def _checked(
    texts: list[bytes], scores: NDArray[np.float32], types: NDArray[np.uint8], byte_fallback: bool
) -> list[str]:
    """The texts of the pieces, where all that the library relies on holds."""
    lengths = list(map(len, texts))
    if not min(lengths) or max(lengths) > _LONGEST_PIECE:
        raise ValueError(f"a piece of 0 or over {_LONGEST_PIECE} bytes")
    pieces = b"\0".join(texts).decode("utf-8").split("\0")
    if len(pieces) != len(texts):
        raise ValueError("a NUL in a piece")
    if not np.isfinite(scores).all():
        raise ValueError("a score that is not finite")
    if (types > BYTE).any() or not types.all():
        raise ValueError(f"a piece of a type beyond 1 to {BYTE}")
    if (unknown := int(np.count_nonzero(types == UNKNOWN))) != 1:
        raise ValueError(f"{unknown} pieces of type unknown, expected 1")
    ordinary = np.isin(types, (NORMAL, USER_DEFINED, UNUSED))
    if not ordinary.any():
        raise ValueError("no pieces for text")
    for group in (ordinary, ~ordinary):
        numbers = np.flatnonzero(group).tolist()
        if len({pieces[number] for number in numbers}) != len(numbers):
            raise ValueError("two pieces with the same text")
    of_bytes = [pieces[number] for number in np.flatnonzero(types == BYTE).tolist()]
    if len(of_bytes) != 256 * byte_fallback or not all(map(_BYTE_PIECE.fullmatch, of_bytes)):
        raise ValueError(f"{len(of_bytes)} pieces of bytes, expected {256 * byte_fallback}")
    _check_nesting(pieces[number] for number in np.flatnonzero(types == USER_DEFINED).tolist())
    return pieces


def _check_nesting(pieces: Iterable[str]) -> None:
    around: list[str] = []  # each begins with the one before
    for piece in sorted(pieces):
        while around and not piece.startswith(around[-1]):
            around.pop()
        around.append(piece)
        if len(around) > _MOST_NESTED:
            raise ValueError(f"over {_MOST_NESTED} user-defined pieces that begin with one another")
