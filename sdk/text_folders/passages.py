"""Passages of a file: neighbouring paragraphs of one section, as long as the encoder reads.

Lengths are counted by the encoder's own tokens, with the title that every passage begins with. A
passage ends at the end of a paragraph or sentence where there is one, else between words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple, TypeAlias

from pocketquery.sdk.text_folders.outline import Paragraph

__all__ = ["Passage", "Tokens", "cut_passages", "estimated_tokens", "fitting_title"]

Tokens: TypeAlias = Callable[[list[str]], Sequence[int]]
"""Counts the tokens of each text, special ones included."""

_SENTENCE = re.compile(
    r"(?:\d{1,3}\.\s+)?.+?(?:[.!?…।؟][\"'”’»)\]]*\s+|[。！？｡][」』）”’]*\s*|\n+|$)", re.DOTALL
)
_WORD = re.compile(r"\S+\s*")
_TOKEN = re.compile(r"[A-Za-z]{1,6}|\d{1,3}|[^\W\d_a-zA-Z]{1,2}|[^\w\s]|_")
_LONGEST_TOKEN = 20  # characters
_LONGEST_WORD = 200  # characters; a longer one is cut before its tokens are counted


class Passage(NamedTuple):
    """A part of a section.

    Attributes:
        text: its paragraphs, a line each.
        first: the paragraph it begins in.
        line: of the file, from 1; 0 where it is unknown.
    """

    text: str
    first: Paragraph
    line: int


class _Piece(NamedTuple):
    """A sentence, or a part of one, with the space behind it."""

    paragraph: Paragraph
    start: int
    text: str
    cost: int


def estimated_tokens(texts: list[str]) -> list[int]:
    """About how many tokens the texts have for an encoder that is not known."""
    return [2 + sum(1 for _ in _TOKEN.finditer(text)) for text in texts]


def fitting_title(parts: Sequence[str], tokens: Tokens, most: int) -> tuple[str, str]:
    """A title that leaves half of what is read to the text, and the words that had no room.

    Args:
        parts: the file's title, then headings.
        tokens: the counter.
        most: tokens that are read.
    """
    title = ": ".join(parts)
    if tokens([title])[0] <= most // 2:
        return title, ""
    rest = ": ".join(parts[1:-1])
    title = ": ".join([parts[0], *parts[1:][-1:]])
    first, *more = cut_passages([Paragraph(None, title)], "", tokens, most // 2)
    return first.text, " ".join([*(one.text for one in more), rest]).strip()


def cut_passages(
    paragraphs: Iterable[Paragraph], title: str, tokens: Tokens, most: int
) -> Iterator[Passage]:
    """Join neighbouring paragraphs, and cut long ones, to passages that are read whole.

    Args:
        paragraphs: of one section and page, in their order.
        title: that each passage will begin with.
        tokens: the counter.
        most: tokens of title and passage together.
    """
    pieces = [
        (paragraph, match.start(), match[0])
        for paragraph in paragraphs
        for match in _SENTENCE.finditer(paragraph.text)
    ]
    overhead, used = tokens(["", title])
    room = max(most - used, 1)
    counted = _counted(pieces, tokens, overhead)
    whole = [part for piece in counted for part in _parts(piece, tokens, overhead, room)]
    waiting = _balanced(list(_packed(whole, room)), room)[::-1]
    while waiting:  # the sum of the parts is nearly the whole's cost, not always
        pack = waiting.pop()
        text = _text(pack)
        if len(pack) > 1 and tokens([f"{title} {text}".strip()])[0] > most:
            half = len(pack) // 2
            waiting += [pack[half:], pack[:half]]
        elif text:
            yield Passage(text, pack[0].paragraph, pack[0].paragraph.line(pack[0].start))


def _counted(
    pieces: Sequence[tuple[Paragraph, int, str]], tokens: Tokens, overhead: int
) -> list[_Piece]:
    counts = tokens([text for *_, text in pieces])
    return [
        _Piece(*piece, max(count - overhead, 0))
        for piece, count in zip(pieces, counts, strict=True)
    ]


def _parts(piece: _Piece, tokens: Tokens, overhead: int, room: int) -> list[_Piece]:
    """The words of a sentence that does not fit by itself, or pieces of such a word."""
    is_short = len(piece.text) <= _LONGEST_TOKEN * room  # an unknown word is one token
    if (piece.cost <= room and is_short) or len(piece.text) == 1:
        return [piece]
    spans = [match.span() for match in _WORD.finditer(piece.text)]
    if len(spans) < 2:
        size = min((len(piece.text) + 1) // 2, _LONGEST_WORD)
        spans = [(at, at + size) for at in range(0, len(piece.text), size)]
    pieces = [(piece.paragraph, piece.start + a, piece.text[a:b]) for a, b in spans]
    return [
        part
        for one in _counted(pieces, tokens, overhead)
        for part in _parts(one, tokens, overhead, room)
    ]


def _packed(pieces: Sequence[_Piece], room: int) -> Iterator[list[_Piece]]:
    """Whole paragraphs together as far as they fit; one that does not, behind others that leave
    half of the room, is begun with them."""
    pack, cost = list[_Piece](), 0
    for _, group in groupby(pieces, lambda piece: id(piece.paragraph)):
        paragraph = list(group)
        more = sum(piece.cost for piece in paragraph)
        if pack and cost + more > room and cost > room // 2:
            yield pack
            pack, cost = [], 0
        for piece in paragraph:
            if pack and cost + piece.cost > room:
                yield pack
                pack, cost = [], 0
            pack.append(piece)
            cost += piece.cost
    if pack:
        yield pack


def _balanced(packs: list[list[_Piece]], room: int) -> list[list[_Piece]]:
    """The same where the last words of a paragraph do not stand alone."""
    for before, after in pairwise(packs):
        cost = sum(piece.cost for piece in after)
        while (
            len(before) > 1
            and before[-1].paragraph is after[-1].paragraph
            and cost < room // 4
            and cost + before[-1].cost <= room * 3 // 4
        ):
            cost += before[-1].cost
            after.insert(0, before.pop())
    return packs


def _text(pack: Sequence[_Piece]) -> str:
    texts = groupby(pack, lambda piece: id(piece.paragraph))
    return "\n".join("".join(one.text for one in group).strip("\n").rstrip() for _, group in texts)
