"""The suffix automaton of one text, and what it has in common with others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.arrays import Int32s
from pocketquery.sdk.errors import MissingExtraError

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["CommonSubstrings", "TextBlock", "code_points", "match_block"]


def kernels() -> ModuleType:
    """The compiled kernels.

    Raises:
        MissingExtraError: numba is not installed.
    """
    try:
        from pocketquery.server.corpus.mining import suffix_kernels
    except ImportError as error:
        raise MissingExtraError.of(error.name or "numba", "server") from error
    return suffix_kernels


def code_points(text: str) -> Int32s:
    """The characters of ``text``, int32 (n,)."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.int32)


@dataclass(frozen=True)
class TextBlock:
    """Some texts as arrays, to be matched with each other.

    Attributes:
        characters: code points of all texts behind one another, int32 (total,).
        starts: where each text starts, and where the last one ends, int32 (texts + 1,).
    """

    characters: Int32s
    starts: Int32s

    @classmethod
    def of(cls, texts: list[str]) -> TextBlock:
        """The block of ``texts``."""
        starts = np.zeros(len(texts) + 1, np.int32)
        np.cumsum([len(text) for text in texts], out=starts[1:])
        return cls(code_points("".join(texts)), starts)

    def running(self, values: NDArray[np.generic]) -> Int32s:
        """Running sum over the characters of a value each, int32 (total + 1,), from 0."""
        sums = np.zeros(len(values) + 1, np.int32)
        np.cumsum(values, out=sums[1:])
        return sums


class CommonSubstrings(NamedTuple):
    """The longest common substrings of pairs, int32 (pairs,) each."""

    lengths: Int32s  # 0 where there is none
    ends: Int32s  # where the partner's occurrence ends in the block's characters
    weights: Int32s


def match_block(
    block: TextBlock, weights: Int32s, anchors: Int32s, first: Int32s, last: Int32s, least: int = 1
) -> CommonSubstrings:
    """The longest common substring of every anchor with its partners ``first`` to ``last - 1``.

    Args:
        block: the texts.
        weights: running sum of the characters' weights; among longest substrings the heaviest
            counts, so that the result does not depend on which text is the anchor.
        anchors: int32 (rows,).
        first: int32 (rows,).
        last: int32 (rows,), behind the last partner.
        least: shorter substrings are not looked for, at least 1.
    """
    match_pairs = kernels().match_pairs
    return CommonSubstrings(
        *match_pairs(block.characters, block.starts, weights, anchors, first, last, least)
    )
