"""The form in which texts are compared when pairs are mined, and the kinds of characters."""

from __future__ import annotations

import functools
import unicodedata

import numpy as np
from numpy.typing import NDArray

__all__ = ["IDEOGRAPH", "LETTER", "OTHER", "character_kinds", "matching_form"]

OTHER, LETTER, IDEOGRAPH = range(3)

_CODE_POINTS = 0x110000
_HAN = ((0x3400, 0x4DC0), (0x4E00, 0xA000), (0xF900, 0xFB00), (0x20000, 0x40000))


def matching_form(text: str) -> str:
    """``text`` in one letter case and one spelling (NFKC), each run of white space one blank.

    Case is folded rather than lowered: that is the same for most letters, and it also makes the
    two small sigmas of Greek one.
    """
    if text.isascii():
        return " ".join(text.lower().split())
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(unicodedata.normalize("NFKC", folded).split())


@functools.cache
def character_kinds() -> NDArray[np.uint8]:
    """Of every code point: ``IDEOGRAPH`` (Han), another ``LETTER``, or ``OTHER``; uint8."""
    letters = (chr(code).isalpha() for code in range(_CODE_POINTS))
    kinds = np.fromiter(letters, np.uint8, _CODE_POINTS) * np.uint8(LETTER)
    for start, stop in _HAN:
        kinds[start:stop] *= np.uint8(IDEOGRAPH)
    kinds.setflags(write=False)
    return kinds
