"""Checking the table by which a sentencepiece model normalises text, before it is used.

The table is a Darts double array of 32-bit units, which the library walks by the bytes of a text
without looking where it walks to, and the replacements that the array's values point to. What a
sound table never has would be read outside of it, so it is refused: a step or a value that leads
out, a replacement that does not end, rules longer than the library has room for. And a table may
not make much of a little text: what a tokenizer needs grows with what it makes.

Source: Darts-clone's ``darts.h`` and sentencepiece's ``normalizer.cc``.
"""

from __future__ import annotations

import numpy as np

from pocketquery.sdk.arrays import NDArray

__all__ = ["check_charsmap"]

_BLOCK = 256  # units, of which a step of one byte reads any
_VALUE = 0x80000000  # marks a unit that holds a value, in its other bits
_MOST_BYTES = 1 << 24  # of the whole; Unicode's own is 240,000
_LONGEST_RULE = 32  # bytes; the library's table of what it matched has that many rows
_LONGEST_REPLACEMENT = 256  # bytes; Unicode's own is 33
_MOST_GROWTH = 16  # bytes for each of a rule; Unicode's own is 11


def check_charsmap(blob: bytes) -> None:
    """Return where the ``precompiled_charsmap`` of a model can be walked by any text.

    Raises:
        ValueError: it cannot; the message says what is wrong with it.
    """
    size = int.from_bytes(blob[:4], "little")
    if not 0 < size < len(blob) - 4 or size % (4 * _BLOCK) or len(blob) > _MOST_BYTES:
        raise ValueError("its normalisation rule is broken")
    _check_steps(np.frombuffer(blob, "<u4", size // 4, 4), _lengths(blob[4 + size :]))


def _lengths(texts: bytes) -> NDArray[np.int64]:
    """At each byte of ``texts`` the bytes of the replacement that begins there; -1: none does."""
    texts.decode("utf-8")
    ends = np.flatnonzero(np.frombuffer(texts, np.uint8) == 0)
    sizes = np.diff(ends, prepend=-1) - 1
    if not len(ends) or ends[-1] != len(texts) - 1 or sizes.max() >= _LONGEST_REPLACEMENT:
        raise ValueError(f"a replacement of its normalisation is over {_LONGEST_REPLACEMENT} bytes")
    lengths = np.full(len(texts), -1, np.int64)
    lengths[ends - sizes] = sizes
    return lengths


def _check_steps(units: NDArray[np.uint32], lengths: NDArray[np.int64]) -> None:
    """Walk all ways at once, a byte at a time. A unit with a label is reached from one place alone,
    its own number with the label's bits changed."""
    numbers = np.flatnonzero(units < _VALUE).astype(np.uint32)
    steps = units[numbers]
    sources, targets = numbers ^ (steps & 0xFF), numbers ^ _offset(steps)
    reached = _offset(units[:1])
    for depth in range(1, _LONGEST_RULE + 2):
        if (reached >= len(units)).any():
            raise ValueError("its normalisation leads outside of its table")
        here = np.zeros(len(units), np.bool_)
        here[reached] = True
        taken = here[sources]
        reached = targets[taken]
        valued = reached[(steps[taken] & 0x100) != 0]
        if (valued >= len(units)).any():
            raise ValueError("its normalisation leads outside of its table")
        values = units[valued] ^ _VALUE
        if (values >= len(lengths)).any() or (lengths[values] < 0).any():
            raise ValueError("its normalisation leads outside of its replacements")
        if (lengths[values] > _MOST_GROWTH * depth).any():
            raise ValueError(f"its normalisation makes over {_MOST_GROWTH} bytes of one")
        if not len(reached):
            return
    raise ValueError(f"its normalisation has a rule of over {_LONGEST_RULE} bytes")


def _offset(units: NDArray[np.uint32]) -> NDArray[np.uint32]:
    offsets: NDArray[np.uint32] = np.left_shift(units >> 10, (units & 0x200) >> 6, dtype=np.uint32)
    return offsets
