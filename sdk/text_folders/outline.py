"""The sections and paragraphs of a file, and what each section is called.

A reader of a format calls :meth:`Outline.head` and :meth:`Outline.add` in the order of the file.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

from pocketquery.sdk.errors import InvalidInputError

__all__ = [
    "Line",
    "Outline",
    "Paragraph",
    "Section",
    "UnreadError",
    "github_anchor",
    "has_text",
    "items",
    "relined",
    "storable",
    "sphinx_anchor",
]

_LONGEST_HEADING = 400  # characters; what is longer is text
_MOST_LEVELS = 20  # a section's id has the words of all around it
_LONGEST_SLUG = 60  # characters


class UnreadError(InvalidInputError):
    """A file that cannot be read as text.

    Attributes:
        kind: of the reason, to count by: "encrypted", "without text".
    """

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(why)
        self.kind = kind


class Line(NamedTuple):
    """A part of a paragraph, and the line of the file that it begins on (from 1; 0: unknown)."""

    text: str
    number: int


@dataclass(frozen=True, eq=False)
class Section:
    """A heading with what is below it.

    Attributes:
        level: from 1.
        heading: its words.
        parent: the section around it.
        anchor: what a link to it has behind ``#``.
        key: its place among the file's sections, from the words of the headings.
        line: of the heading, from 1.
    """

    level: int
    heading: str
    parent: Section | None
    anchor: str
    key: str
    line: int

    def path(self) -> list[Section]:
        """The sections around it, outermost first, and itself."""
        sections, one = list[Section](), self.parent
        while one is not None:
            sections.append(one)
            one = one.parent
        return [*sections[::-1], self]


@dataclass(frozen=True)
class Paragraph:
    """Text of one section, with one page.

    Attributes:
        section: None before the first heading.
        text: what a reader of the file sees.
        starts: where in ``text`` a line of the file begins, and its number.
        page: of the file, from 1; None where it has none.
    """

    section: Section | None
    text: str
    starts: Sequence[tuple[int, int]] = ()
    page: int | None = None

    def line(self, offset: int) -> int:
        """The line of the file on which the character at ``offset`` is."""
        at = bisect_right(self.starts, offset, key=lambda start: start[0])
        return self.starts[at - 1][1] if at else 0


@dataclass
class Outline:
    """What was read of a file.

    Attributes:
        title: that the file gives itself; empty where it gives none.
        fields: of its front matter, metadata of every passage.
        paragraphs: in their order. A heading with nothing below it is one.
        anchor_of: makes a heading's anchor, from its words and how many had the same.
    """

    anchor_of: Callable[[str, int], str] = lambda heading, before: ""
    title: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    paragraphs: list[Paragraph] = field(default_factory=list)
    page: int | None = None
    _first: Section | None = None
    _of_level_1: int = 0  # how many
    _open: Section | None = None
    _is_empty: bool = False  # whether the open section has nothing below its heading
    _keys: Counter[str] = field(default_factory=Counter)
    _anchors: Counter[str] = field(default_factory=Counter)

    def head(self, level: int, heading: str, line: int = 0, anchor: str = "") -> None:
        """A heading; it ends the sections of its own level and of those below."""
        level, heading = min(level, _MOST_LEVELS), storable(heading)
        self.end(level)
        if not has_text(heading) or len(heading) > _LONGEST_HEADING:
            self.add([Line(heading, line)])
            return
        parent = self._open
        key = f"{parent.key}/{_slug(heading)}" if parent else _slug(heading)
        self._keys[key] += 1
        if self._keys[key] > 1:
            key = f"{key}~{self._keys[key]}"
        if not anchor:
            slug = self.anchor_of(heading, 0)
            anchor = self.anchor_of(heading, self._anchors[slug])
            self._anchors[slug] += 1
        self._open = Section(level, heading, parent, anchor, key, line)
        self._first = self._first or self._open
        self._of_level_1 += level == 1
        self._is_empty = True

    def add(self, lines: Sequence[Line], glue: str = " ") -> None:
        """A paragraph of some lines, joined by ``glue``."""
        lines = [line for line in lines if line.text.strip()]
        if not lines:
            return
        texts = [line.text.rstrip() for line in lines]
        begins = accumulate((len(text) + len(glue) for text in texts[:-1]), initial=0)
        starts = [(start, line.number) for start, line in zip(begins, lines, strict=True)]
        text = storable(glue.join(texts))
        if has_text(text):
            self.paragraphs.append(Paragraph(self._open, text, starts, self.page))
            self._is_empty = False

    def end(self, level: int = 0) -> None:
        """The end of the sections from ``level`` on."""
        one = self._open
        if one and self._is_empty and one.level >= level:
            start = [(0, one.line)]
            self.paragraphs.append(Paragraph(one, one.heading, start, self.page))
        while self._open and self._open.level >= level:
            self._open = self._open.parent
        self._is_empty = False

    def title_above(self, section: Section | None, name: str) -> tuple[str, list[str]]:
        """The title of the file as it is for a section, and the headings that follow it.

        That is the title the file gives itself. Else a first heading of level 1 that has no
        sibling. Of several each is the title of its own part. Else the file's name.
        """
        path = [one.heading for one in section.path()] if section else []
        top = self.title_section()
        title = self.title or (top.heading if top else "")
        is_part = section is not None and section.path()[0].level == 1
        if path and (title == path[0] or (is_part and not title)):
            return path[0], path[1:]
        return title or name, path

    def title_section(self) -> Section | None:
        """The section whose heading is the file's title: of level 1, above all text, and with no
        sibling."""
        first = self._first
        if first is None or first.level > 1 or self._of_level_1 > 1:
            return None
        return None if self.paragraphs and self.paragraphs[0].section is None else first


def items(lines: Sequence[Line], begin: re.Pattern[str]) -> Iterator[list[Line]]:
    """The lines of a paragraph, parted where one matches ``begin``."""
    item = list[Line]()
    for line in lines:
        if item and begin.match(line.text):
            yield item
            item = []
        item.append(line)
    if item:
        yield item


def relined(text: str, lines: Sequence[Line]) -> list[Line]:
    """``lines`` with the text that became of them, whose lines can be fewer."""
    texts = text.split("\n")
    if len(texts) != len(lines):
        return [Line(" ".join(texts), lines[0].number)]
    return [Line(one, line.number) for one, line in zip(texts, lines, strict=True)]


def storable(text: str) -> str:
    """``text`` with a question mark for each half of a character, which no index has."""
    return text.encode(errors="replace").decode()


def has_text(text: str) -> bool:
    """Whether there is a letter, a digit or a sign that is a picture."""
    return any(one.isalnum() or unicodedata.category(one) == "So" for one in text)


def github_anchor(heading: str, before: int) -> str:
    """The anchor that GitHub, and most generators of sites, make of a heading in Markdown.

    Args:
        heading: its words.
        before: how many headings above it have the same anchor.
    """
    slug = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
    return f"{slug}-{before}" if before else slug


def sphinx_anchor(heading: str, before: int) -> str:
    """The anchor that docutils makes of a heading in reStructuredText."""
    plain = unicodedata.normalize("NFKD", heading.lower()).encode("ascii", "ignore").decode()
    slug = re.sub(r"^[-0-9]+|-+$", "", re.sub(r"[^a-z0-9]+", "-", plain))
    return slug if slug and not before else f"id{before or 1}"


def _slug(heading: str) -> str:
    """A heading's part of an id: the words, without the signs that part ids."""
    words = re.findall(r"\w+(?:[.+\-]\w+)*\+*", heading.casefold())
    return "-".join(words)[:_LONGEST_SLUG] or "section"
