"""The paragraphs of a file below its headings, and passages of them.

Passages are joined and cut to what an encoder reads, in scripts with spaces and without.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pocketquery.sdk.index.analysis import UNSPACED

__all__ = ["Outline", "Paragraph", "cut_passages"]

_LONGEST = 100  # characters of a word; a longer one is cut into words of this many:
_CHUNK = 20
_SENTENCE_ENDS = (".", "!", "?", "。", "！", "？", "｡", "।", "؟")


class Paragraph(NamedTuple):
    headings: tuple[str, ...]
    """Its section's, last; before it those above that have no text of their own."""
    text: str
    is_heading: bool = False
    """Whether the text is the heading, with nothing below it."""


@dataclass
class _Section:
    level: int
    heading: str
    has_text: bool = False


class Outline:
    """The paragraphs of a file below its headings, none of which is lost."""

    def __init__(self) -> None:
        self.first_heading = ""
        self.paragraphs: list[Paragraph] = []
        self._open: list[_Section] = []

    def head(self, level: int, heading: str) -> None:
        """A heading; it ends the sections of its own level and of those below."""
        self.end(level)
        self._open.append(_Section(level, heading))
        self.first_heading = self.first_heading or heading

    def add(self, text: str) -> None:
        """A paragraph."""
        self.paragraphs.append(Paragraph(self._headings(), text))
        if self._open:
            self._open[-1].has_text = True

    def end(self, level: int = 0) -> None:
        """The end of the sections from ``level`` on."""
        if self._open and self._open[-1].level >= level and not self._open[-1].has_text:
            alone = self._open[-1].heading
            self.paragraphs.append(Paragraph(self._headings(), alone, is_heading=True))
        while self._open and self._open[-1].level >= level:
            self._open.pop()

    def _headings(self) -> tuple[str, ...]:
        above = tuple(section.heading for section in self._open[:-1] if not section.has_text)
        return (*above, self._open[-1].heading) if self._open else ()


class _Piece(NamedTuple):
    """What is never cut: a word with the space behind it, or a letter of an unspaced script."""

    text: str
    cost: int  # in half words


def cut_passages(
    paragraphs: Iterable[Paragraph], words: int
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Neighbouring paragraphs of one section joined, and long ones cut, to ``words`` words; each
    with its headings."""
    headings, waiting, cost = tuple[str, ...](), list[_Piece](), 0
    for paragraph in paragraphs:
        pieces = [piece for word in paragraph.text.split() for piece in _pieces(word)]
        more = sum(piece.cost for piece in pieces)
        if waiting and (paragraph.headings != headings or cost + more > 2 * words):
            yield headings, _joined(waiting)
            waiting, cost = [], 0
        headings = paragraph.headings
        waiting += pieces
        cost += more
        start = 0
        while cost > 2 * words:
            stop = _cut(waiting, start, 2 * words)
            yield headings, _joined(waiting[start:stop])
            cost -= sum(piece.cost for piece in waiting[start:stop])
            start = stop
        del waiting[:start]
    if waiting:
        yield headings, _joined(waiting)


def _joined(pieces: Sequence[_Piece]) -> str:
    return "".join(piece.text for piece in pieces).rstrip()


@functools.lru_cache(1 << 16)  # every script in use
def _kind(character: str) -> tuple[bool, bool]:
    """Whether it is a letter of an unspaced script, and whether it belongs to what is before it,
    as marks and closing punctuation do."""
    category = unicodedata.category(character)
    clings = category[0] == "M" or category in ("Cf", "Pe", "Pf", "Po")
    return UNSPACED.match(character) is not None, clings


def _pieces(word: str) -> list[_Piece]:
    is_long = len(word) > _LONGEST
    if not is_long and (word.isascii() or not UNSPACED.search(word)):
        return [_Piece(f"{word} ", 2)]
    pieces, start, unspaced = list[_Piece](), 0, _kind(word[0])[0]
    for at, (own, clings) in enumerate(map(_kind, word)):
        full = (is_long or unspaced) and at - start >= _CHUNK
        if full or ((own or unspaced) and not clings and at):
            pieces.append(_Piece(word[start:at], at - start if unspaced else min(2, at - start)))
            start, unspaced = at, own
    least = 1 if pieces else 2  # of a whole word
    cost = len(word) - start if unspaced else 2
    return [*pieces, _Piece(f"{word[start:]} ", max(least, cost))]


def _cut(pieces: Sequence[_Piece], start: int, most: int) -> int:
    """Where to cut what begins at ``start``: after the last sentence that ends in the second half
    of what costs ``most``, else where that is."""
    place, cost, end = start, 0, 0
    while place < len(pieces) and cost + pieces[place].cost <= most:
        cost += pieces[place].cost
        place += 1
        if cost > most // 2 and pieces[place - 1].text.rstrip(" 」』）").endswith(_SENTENCE_ENDS):
            end = place
    return end or place
