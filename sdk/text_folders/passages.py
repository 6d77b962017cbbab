"""Paragraphs joined and cut to what an encoder reads, in scripts with spaces and without."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pocketquery.sdk.index.analysis import UNSPACED
from pocketquery.sdk.text_folders.outline import Paragraph

__all__ = ["cut_passages"]

_LONGEST = 100  # characters of a word; a longer one is cut into words of this many:
_CHUNK = 20
_SENTENCE_ENDS = (".", "!", "?", "。", "！", "？", "｡", "।", "؟")


class _Piece(NamedTuple):
    """What is never cut: a word with the space behind it, or a letter of an unspaced script."""

    text: str
    cost: int  # in half words


def cut_passages(
    paragraphs: Iterable[Paragraph], words: int
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Neighbouring paragraphs of one section joined, and long ones cut, to ``words`` words; each
    with its headings."""
    headings, kept, cost = tuple[str, ...](), list[_Piece](), 0
    for paragraph in paragraphs:
        pieces = [piece for word in paragraph.text.split() for piece in _pieces(word)]
        more = sum(piece.cost for piece in pieces)
        if kept and (paragraph.headings != headings or cost + more > 2 * words):
            yield headings, _joined(kept)
            kept, cost = [], 0
        headings = paragraph.headings
        kept += pieces
        cost += more
        start = 0
        while cost > 2 * words:
            stop = _cut(kept, start, 2 * words)
            yield headings, _joined(kept[start:stop])
            cost -= sum(piece.cost for piece in kept[start:stop])
            start = stop
        del kept[:start]
    if kept:
        yield headings, _joined(kept)


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
