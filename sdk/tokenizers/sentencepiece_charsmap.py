"""Checking the table by which a sentencepiece model normalises text, before it is used.

The table is a Darts double array of 32-bit units, which the library walks by the bytes of a text
without looking where it walks to, and the replacements that the array's values point to. What a
sound table never has would be read outside of it, so it is refused: a step or a value that leads
out, a replacement that does not end, rules longer than the library has room for.

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


def check_charsmap(blob: bytes) -> None:
    """Return where the ``precompiled_charsmap`` of a model can be walked by any text.

    Raises:
        ValueError: it cannot; the message says what is wrong with it.
    """
    size = int.from_bytes(blob[:4], "little")
    if not 0 < size < len(blob) - 4 or size % (4 * _BLOCK) or len(blob) > _MOST_BYTES:
        raise ValueError("its normalisation rule is broken")
    _check_steps(np.frombuffer(blob, "<u4", size // 4, 4), _beginnings(blob[4 + size :]))


def _beginnings(texts: bytes) -> NDArray[np.bool_]:
    """At each byte of ``texts`` whether a replacement begins there."""
    texts.decode("utf-8")
    ends = np.frombuffer(texts, np.uint8) == 0
    lengths = np.diff(np.flatnonzero(ends), prepend=-1)
    if not ends[-1] or lengths.max() > _LONGEST_REPLACEMENT:
        raise ValueError(f"a replacement of its normalisation is over {_LONGEST_REPLACEMENT} bytes")
    return np.concatenate(([True], ends[:-1]))


def _check_steps(
    units: NDArray[np.uint32],
    beginnings: NDArray[np.bool_],
) -> None:
    """Walk all ways at once, a byte at a time. A unit with a label is reached from one place alone,
    its own number with the label's bits changed."""
    numbers = np.flatnonzero(units < _VALUE).astype(np.uint32)
    steps = units[numbers]
    sources, targets = numbers ^ (steps & 0xFF), numbers ^ _offset(steps)
    reached = _offset(units[:1])
    for _ in range(_LONGEST_RULE + 1):
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
        if (values >= len(beginnings)).any() or not beginnings[values].all():
            raise ValueError("its normalisation leads outside of its replacements")
        if not len(reached):
            return
    raise ValueError(f"its normalisation has a rule of over {_LONGEST_RULE} bytes")


def _offset(
    units: NDArray[np.uint32],
) -> NDArray[np.uint32]:
    offsets: NDArray[np.uint32] = np.left_shift(units >> 10, (units & 0x200) >> 6, dtype=np.uint32)
    return offsets
