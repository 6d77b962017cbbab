"""Sentencepiece models made by hand, of a few pieces each: sound ones, and one of each kind that is
refused. Python's reader and JavaScript's agree on them (conformance/refused.json.gz)."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from pocketquery.sdk.bundle.protobuf import BYTES, FIXED32, VARINT, message

__all__ = ["REFUSED", "SOUND", "charsmap", "model", "piece"]

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
_SPACE = "\u2581"


def varint(value: int) -> bytes:
    low = b""
    while value > 0x7F:
        low += bytes([value & 0x7F | 0x80])
        value >>= 7
    return low + bytes([value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3 | VARINT) + varint(value)


def text(field: int, value: bytes) -> bytes:
    return varint(field << 3 | BYTES) + varint(len(value)) + value


def piece(value: bytes | str, score: float = 0.0, type_: int = NORMAL) -> bytes:
    """A piece as a field of a model."""
    value = value.encode() if isinstance(value, str) else value
    scored = bytes([2 << 3 | FIXED32]) + struct.pack("<f", score)
    return message(1, text(1, value) + scored + number(3, type_))


SPECIALS = [piece("<unk>", 0, UNKNOWN), piece("<s>", 0, CONTROL), piece("</s>", 0, CONTROL)]
WORDS = [piece(_SPACE, -3), piece("a", -2), piece("b", -2.5), piece("ab", -1)]
BYTES_OF_ALL = [piece(f"<0x{byte:02X}>", 0, BYTE) for byte in range(256)]


def model(*more: bytes, trainer: bytes = b"", normalizer: bytes = b"", rest: bytes = b"") -> bytes:
    """A unigram model of few pieces, ``more`` among them."""
    pieces = [*SPECIALS, *WORDS, *more]
    return b"".join(pieces) + message(2, trainer) + message(3, normalizer) + rest


def charsmap(
    rules: Mapping[bytes, bytes],
    units: Mapping[int, int] | None = None,
    texts: bytes | None = None,
    size: int | None = None,
) -> bytes:
    """The table of ``rules``: each node has 256 units to itself, its value in the first. The rest
    is put over it at the end."""
    nodes = {b""} | {key[:end] for key in rules for end in range(1, len(key) + 1)}
    bases = {node: 256 * (1 + at) for at, node in enumerate(sorted(nodes))}
    # Labels of a byte that is not the place's own: nothing leads there.
    table = [1 if at & 0xFF == 0 else 0 for at in range(256 * (1 + len(nodes)))]
    table[0] = bases[b""] << 10
    values = b""
    for node, base in bases.items():
        if node:
            at = bases[node[:-1]] ^ node[-1]
            table[at] = (at ^ base) << 10 | node[-1] | (0x100 if node in rules else 0)
        if node in rules:
            table[base] = 0x80000000 | len(values)
            values += rules[node] + b"\0"
    for at, unit in (units or {}).items():
        table[at] = unit
    blob = struct.pack(f"<{len(table)}I", *table)
    return (
        struct.pack("<I", len(blob) if size is None else size)
        + blob
        + (values if texts is None else texts)
    )


def normalizing(blob: bytes) -> bytes:
    return model(normalizer=text(2, blob))


_RULES = {b"A": b"a", b"BA": b"ab", b"B": b""}
_BASE_OF_A, _UNIT_OF_A = 512, 256 ^ 0x41  # in the table of _RULES

SOUND = {
    "few pieces": model(),
    "BPE": model(trainer=number(3, 2)),
    "bytes": model(*BYTES_OF_ALL, trainer=number(35, 1)),
    "a table": normalizing(charsmap(_RULES)),
    "a rule of 32 bytes": normalizing(charsmap({b"ab" * 16: b"b"})),
    "a replacement of 255 bytes": normalizing(charsmap({b"A" * 16: b"a" * 255})),
    "16 bytes of one": normalizing(charsmap({b"A": b"a" * 16})),
    "a piece of 512 bytes": model(piece("a" * 512)),
    "64 user-defined pieces in one another": model(
        *(piece("c" * size, 0, USER_DEFINED) for size in range(1, 65))
    ),
    "fields of a newer release": model(
        trainer=number(99, 5) + text(120, b"x"), normalizer=number(77, 1), rest=text(9, b"\xff")
    ),
    "another message twice": model(rest=message(2, number(24, 0))),
    "a test of itself": model(rest=text(4, b"\xff")),
    "a denormalizer": model(rest=text(5, text(2, b"\xff" * 9))),
    "fields in another order": model(message(1, number(3, NORMAL) + text(1, b"cd"))),
}

REFUSED = {
    "no bytes": b"",
    "no model": b'{"model": {}}',
    "no pieces": message(2, b""),
    "an empty piece": model(piece("")),
    "a NUL in a piece": model(piece("a\0b", 0, USER_DEFINED)),
    "a piece of 513 bytes": model(piece("a" * 513)),
    "a piece of 400,000 letters": model(piece("a" * 400_000)),
    "a piece that is no UTF-8": model(piece(b"\xff")),
    "half a character": model(piece(b"\xed\xa0\x80")),
    "a piece twice": model(piece("ab")),
    "a control piece twice": model(piece("<s>", 0, CONTROL)),
    "two unknown pieces": model(piece("<unk2>", 0, UNKNOWN)),
    "no unknown piece": b"".join(SPECIALS[1:] + WORDS),
    "no piece for text": b"".join(SPECIALS),
    "a type of 0": model(piece("c", 0, 0)),
    "a type of 7": model(piece("c", 0, 7)),
    "a type of 2**32 + 1": model(piece("c", 0, (1 << 32) + 1)),
    "a number of more than 64 bits": model(rest=b"\x48" + b"\xff" * 9 + b"\x02"),
    "a number without an end": model(rest=b"\x48" + b"\xff" * 12),
    "an infinite score": model(piece("c", float("inf"))),
    "a score that is none": model(piece("c", float("nan"))),
    "a score of another type": model(message(1, text(1, b"c") + number(2, 1))),
    "a field twice in a piece": model(message(1, text(1, b"c") + text(1, b"d"))),
    "a field that pieces do not have": model(message(1, text(1, b"c") + number(9, 1))),
    "a piece without a text": model(message(1, number(3, 1))),
    "a byte without byte_fallback": model(piece("<0x41>", 0, BYTE)),
    "255 bytes": model(*BYTES_OF_ALL[:-1], trainer=number(35, 1)),
    "a byte that is none": model(
        *BYTES_OF_ALL[:-1], piece("<0xGG>", 0, BYTE), trainer=number(35, 1)
    ),
    "byte_fallback without bytes": model(trainer=number(35, 1)),
    "a model of words": model(trainer=number(3, 3)),
    "a model of characters": model(trainer=number(3, 4)),
    "a kind of another type": model(trainer=text(3, b"\1")),
    "a name of another type": model(trainer=number(46, 1)),
    "a name that is no UTF-8": model(trainer=text(46, b"\xff")),
    "65 user-defined pieces in one another": model(
        *(piece("c" * size, 0, USER_DEFINED) for size in range(1, 66))
    ),
    "a table of another type": model(normalizer=number(2, 1)),
    "a table of three bytes": normalizing(b"abc"),
    "a table without replacements": normalizing(charsmap(_RULES, texts=b"")),
    "a table of no units": normalizing(charsmap(_RULES, size=0)),
    "a table longer than it is": normalizing(charsmap(_RULES, size=1 << 31)),
    "a table cut in a block": normalizing(charsmap(_RULES, size=1028)),
    "a root that leads out": normalizing(charsmap(_RULES, {0: 0x1FFFFF << 10})),
    "a step that leads out": normalizing(charsmap(_RULES, {_UNIT_OF_A: 0x1FFFFF << 10 | 0x41})),
    "a long step that leads out": normalizing(
        charsmap(_RULES, {_UNIT_OF_A: 0x1FFFFF << 10 | 0x241})
    ),
    "a step in a circle": normalizing(charsmap(_RULES, {_UNIT_OF_A: 0x41 << 10 | 0x41})),
    "a value beyond the replacements": normalizing(
        charsmap(_RULES, {_BASE_OF_A: 0x80000000 | 999_999})
    ),
    "a value within a replacement": normalizing(charsmap(_RULES, {_BASE_OF_A: 0x80000000 | 4})),
    "a value that is none": normalizing(charsmap(_RULES, {_BASE_OF_A: 0})),
    "a replacement without an end": normalizing(charsmap(_RULES, texts=b"a\0ab\0c")),
    "a replacement that is no UTF-8": normalizing(charsmap(_RULES, texts=b"\xff\0\0ab\0")),
    "a replacement of 256 bytes": normalizing(charsmap({b"A" * 16: b"a" * 256})),
    "17 bytes of one": normalizing(charsmap({b"A": b"a" * 17})),
    "33 bytes of two": normalizing(charsmap({b"AB": b"a" * 33})),
    "a rule of 33 bytes": normalizing(charsmap({b"a" * 33: b"b"})),
    "a message that is cut": model()[:-1] + b"\x7f",
    "a group": model(rest=b"\x0b\x0c"),
    "a field of number 0": model(rest=b"\x00\x00"),
    "a field beyond 2**29": model(rest=varint(1 << 33) + b"\x00"),
}  # fmt: skip
