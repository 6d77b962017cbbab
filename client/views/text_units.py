"""Cut a query into units that can be moved or dropped: words, or characters without spaces.

In scripts without spaces (Chinese, Japanese, Thai, Lao, Burmese, Khmer) a unit is a character with
its marks; elsewhere it is what is between spaces. Both can occur in one text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["Units", "cut", "is_unspaced", "pieces"]

_JOINER = "\u200d"
# Thai, Lao, Burmese, Khmer; kana, bopomofo, Han and its extensions (Korean writes spaces).
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3041-\u30ff"
    "\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uaa60-\uaa7f\uf900-\ufaff"
    "\uff66-\uff9f\U0001b000-\U0001b16f\U00020000-\U0003ffff]"
)


@dataclass(frozen=True)
class Units:
    """Units and the blank space around them.

    Attributes:
        texts: the units, none blank.
        gaps: what stands before each, and after the last: one more than there are units.
    """

    texts: tuple[str, ...]
    gaps: tuple[str, ...]

    def arranged(self, texts: Sequence[str]) -> str:
        """The text with ``texts``, as many as there are units, in the units' places.

        Words that come to stand beside each other get a space.
        """
        written = self.gaps[0]
        if not texts:
            return written
        for place, text in enumerate(texts):
            gap = self.gaps[place] if place else ""
            if place and not gap and not (_unspaced(texts[place - 1]) or _unspaced(text)):
                gap = " "
            written += gap + text
        return written + self.gaps[-1]

    def without(self, dropped: set[int]) -> str:
        """The text without the units at the places ``dropped``."""
        places = [place for place in range(len(self.texts)) if place not in dropped]
        between = [max(self.gaps[a + 1 : b + 1], key=len) for a, b in pairwise(places)]
        texts = tuple(self.texts[place] for place in places)
        return Units(texts, (self.gaps[0], *between, self.gaps[-1])).arranged(texts)


def cut(text: str) -> Units:
    """``text`` as units; ``cut(text).arranged(cut(text).texts)`` is ``text`` again."""
    texts: list[str] = []
    gaps: list[str] = [""]
    for part in re.findall(r"\s+|\S+", text):
        if part.isspace():
            gaps[-1] = part
            continue
        for unit in _units_of(part):
            texts.append(unit)
            gaps.append("")
    return Units(tuple(texts), tuple(gaps))


def pieces(text: str) -> list[str]:
    """``text`` cut into characters, each with the marks on it and what a joiner ties to it."""
    characters: list[str] = []
    for character in text:
        tied = characters and (
            unicodedata.category(character)[0] == "M"
            or character == _JOINER
            or characters[-1].endswith(_JOINER)
        )
        if tied and not characters[-1].isspace() and not character.isspace():
            characters[-1] += character
        else:
            characters.append(character)
    return characters


def is_unspaced(character: str) -> bool:
    """Whether its script writes no spaces between words."""
    return _UNSPACED.match(character) is not None


def _unspaced(unit: str) -> bool:
    return is_unspaced(unit[:1])


def _units_of(word: str) -> list[str]:
    """Its pieces in scripts without spaces; what stands between them is one unit."""
    units: list[str] = []
    for piece in pieces(word):
        if units and not _unspaced(piece) and not _unspaced(units[-1]):
            units[-1] += piece
        else:
            units.append(piece)
    return units
