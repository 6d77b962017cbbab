"""Sentencepiece models as an attacker writes them: a real one, changed where it hurts.

``broken_model`` draws one from a seed: bytes anywhere, fields of pieces and of the specifications,
units and texts of the normalisation's table. ``outcome`` opens it and encodes texts; whoever calls
it has a process to lose.

``python -m tests.sdk.hostile_sentencepiece FIRST COUNT`` runs many and prints which were refused,
which were used, and which ended their process by a signal.
"""

from __future__ import annotations

import functools
import random
import struct
import sys
from collections import Counter
from collections.abc import Iterator

from pocketquery.sdk.bundle.protobuf import BYTES, FIXED32, VARINT, fields_of, message
from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.sdk.tokenizers.sentencepiece_model import SentencePieceTokenizer
from tests.kills import in_a_fork
from tests.sdk.handmade_sentencepiece import varint
from tests.sdk.hostile_bundles import spoilt_bytes
from tests.sdk.multilingual_model import train_model

REFUSED, USED = 1, 0
_BATCH = 50  # models in one process, until one ends it

Field = tuple[int, bytes]  # tag; and what follows it, without a length

_LONG = [b"a" * 1024, b"a" * 1025, b"a" * 400_000, "가".encode() * 300]
_TEXTS = [b"", b"a\0b", b"\0", b"\xff", b"\xe2\x96", b"\xed\xa0\x80", "▁".encode(), b" ", *_LONG]
_TEXTS += [b"<unk>", b"</s>", b"<0x41>", b"<0xZZ>"]
_SCORES = [0.0, -0.0, float("nan"), float("inf"), -float("inf"), 3e38, -3e38, 1e-45, 5.0]
_NUMBERS = [0, 1, 2, 3, 4, 5, 6, 7, 63, 64, 127, 128, 255, 1 << 31, (1 << 32) + 1, (1 << 64) - 1]


@functools.cache
def sound_models() -> tuple[bytes, ...]:
    """Real ones: unigram and BPE, with and without bytes, user-defined pieces and a table."""
    return (
        train_model(vocab_size=200),
        train_model(vocab_size=450, byte_fallback=True, normalization_rule_name="nmt_nfkc_cf"),
        train_model(vocab_size=220, model_type="bpe", user_defined_symbols=["ab", "abc", "東"]),
        train_model(vocab_size=200, normalization_rule_name="identity"),
        train_model(vocab_size=210, treat_whitespace_as_suffix=True, user_defined_symbols=["<x>"]),
    )


def broken_model(seed: int) -> bytes:
    """The bytes of one; nearly every seed gives another."""
    rng = random.Random(seed)
    data = rng.choice(sound_models())
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        data = rng.choice([_in_fields, _in_fields, _in_pieces, _in_pieces, _in_table, _in_bytes])(
            rng, data
        )
    return data


def texts_for(seed: int) -> list[str]:
    """Texts that reach much of a table of normalisation."""
    rng = random.Random(seed)
    anywhere = (
        rng.choice([rng.randrange(0xD800), rng.randrange(0xE000, 0x30000)]) for _ in "x" * 60
    )
    usual = rng.choices("abcdeабв東αα①ﬁÄ㍿Ⅷ  \u3000\u0301\t", k=200)
    return ["", " ", "plants make  sugar ﬁ ", "".join(map(chr, anywhere)), "".join(usual)]


def outcome(data: bytes, seed: int) -> list[list[int]] | None:
    """The ids of :func:`texts_for`; None where the model is refused."""
    try:
        tokenizer = SentencePieceTokenizer(data, 512, "plain")
    except CorruptArtifactError:
        return None
    return [tokenizer.encode(text) for text in texts_for(seed)]


def _in_bytes(rng: random.Random, data: bytes) -> bytes:
    return spoilt_bytes(rng, data)


def _in_fields(rng: random.Random, data: bytes) -> bytes:
    """A field of the model, or of what is in one of the last, which are the specifications."""
    fields = _fields(data) or [(0x0A, b"")]
    at = rng.choice([rng.randrange(len(fields)), *(-1 - n for n in range(min(3, len(fields))))])
    kind = rng.randrange(8)
    tag, content = fields[at]
    if kind == 0:
        del fields[at]
    elif kind == 1:
        fields.insert(rng.randrange(len(fields)), fields[at])
    elif kind == 2:
        fields = fields * 2
    elif kind == 3:
        fields.append((rng.randrange(1, 600), rng.randbytes(9)))
    elif tag & 7 == BYTES:
        inner = _fields(content)
        fields[at] = tag, _joined(_spoilt(rng, inner))
    return _joined(fields)


def _in_pieces(rng: random.Random, data: bytes) -> bytes:
    fields = _fields(data)
    pieces = [number for number, (tag, _) in enumerate(fields) if tag == 0x0A]
    if not pieces:
        return data
    kind = rng.randrange(4)
    if kind == 0:  # one inside another, one letter longer each
        letters = rng.choice(["a", "東"])
        added = [
            (letters * n, rng.choice([1, 4, 4, 5])) for n in range(2, rng.choice([40, 66, 70, 400]))
        ]
        fields[pieces[-1] : pieces[-1]] = [
            (0x0A, _joined([(0x0A, text.encode()), (0x15, bytes(4)), (0x18, bytes([type_]))]))
            for text, type_ in added
        ]
    else:
        at = rng.choice(pieces)
        fields[at] = 0x0A, _joined(_spoilt(rng, _fields(fields[at][1])))
    return _joined(fields)


def _in_table(rng: random.Random, data: bytes) -> bytes:
    """A unit or a text of the table of normalisation."""
    fields = _fields(data)
    at = next((n for n, (tag, _) in enumerate(fields) if tag == 0x1A), None)
    if at is None:
        return data
    inner = _fields(fields[at][1])
    place = next((n for n, (tag, _) in enumerate(inner) if tag == 0x12), None)
    if place is None or len(inner[place][1]) < 5000:
        return data
    table = bytearray(inner[place][1])
    size = int.from_bytes(table[:4], "little")
    kind = rng.randrange(6)
    for _ in range(rng.choice([1, 2, 20, 400])):
        unit = 4 + 4 * rng.choice([0, rng.randrange(256), rng.randrange(max(size // 4, 1))])
        if unit + 4 > len(table):
            continue
        if kind == 0:
            table[unit + rng.randrange(4)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            table[unit : unit + 4] = rng.randbytes(4)
        elif kind == 2:  # another unit: cycles, and ways that meet
            other = 4 + 4 * rng.randrange(max(size // 4, 1))
            table[unit : unit + 4] = table[other : other + 4]
        elif kind == 3:
            table[rng.randrange(len(table))] = rng.choice([0, 0xFF, 0x20])
    if kind == 4:
        sizes = [0, 1, 4, size - 1, size + 4, size // 2, 2**31, 2**32 - 1]
        table[:4] = struct.pack("<I", rng.choice(sizes) & 0xFFFFFFFF)
    elif kind == 5:
        table = table[: rng.choice([size, size + 4, len(table) - 1, rng.randrange(len(table))])]
    inner[place] = 0x12, bytes(table)
    fields[at] = 0x1A, _joined(inner)
    return _joined(fields)


def _spoilt(rng: random.Random, fields: list[Field]) -> list[Field]:
    """One field of a message removed, doubled, of another type or with another value."""
    if not fields:
        return [(rng.randrange(8, 400), bytes(8))]
    at = rng.randrange(len(fields))
    tag, _ = fields[at]
    kind = rng.randrange(8)
    if kind == 0:
        return fields[:at] + fields[at + 1 :]
    if kind == 1:
        return [*fields, fields[at]]
    if kind == 2:
        tag = tag & ~7 | rng.choice([0, 1, 2, 3, 5])
    elif kind == 3:
        tag = rng.randrange(1, 60) << 3 | tag & 7
    changed = list(fields)
    changed[at] = tag, _value(rng, tag & 7)
    return changed


def _value(rng: random.Random, wire: int) -> bytes:
    if wire == BYTES:
        return rng.choice(_TEXTS)
    if wire == FIXED32:
        return struct.pack("<f", rng.choice(_SCORES))
    return varint(rng.choice(_NUMBERS)) if wire == VARINT else rng.randbytes(8)


def _fields(data: bytes) -> list[Field]:
    try:
        return [(tag, data[begin:end]) for tag, begin, end, _ in fields_of(data, 0, len(data))]
    except (ValueError, IndexError):
        return [(0x0A, data)]


def _joined(fields: list[Field]) -> bytes:
    return b"".join(
        varint(tag) + (message(1, content)[1:] if tag & 7 == BYTES else content)
        for tag, content in fields
    )


def killed_by(first: int, count: int) -> tuple[Counter[int], list[int]]:
    """How many seeds from ``first`` on are refused and used, and which ended their process."""
    seen, killed = Counter[int](), list[int]()
    waiting = list(_batches(first, count))
    while waiting:
        seeds = waiting.pop()
        used = in_a_fork(functools.partial(_used, seeds))
        if used is not None:
            seen[USED] += used
            seen[REFUSED] += len(seeds) - used
        elif len(seeds) == 1:
            killed += seeds
        else:
            waiting += [seeds[: len(seeds) // 2], seeds[len(seeds) // 2 :]]
    return seen, killed


def _batches(first: int, count: int) -> Iterator[range]:
    for start in range(first, first + count, _BATCH):
        yield range(start, min(start + _BATCH, first + count))


def _used(seeds: range) -> int:
    return sum(outcome(broken_model(seed), seed) is not None for seed in seeds)


def main(first: int, count: int) -> int:
    """Run ``count`` seeds; 1 where one of them ended its process."""
    sound_models()
    seen, killed = killed_by(first, count)
    print(f"refused {seen[REFUSED]}, used {seen[USED]}, killed {killed}")
    return int(bool(killed))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
