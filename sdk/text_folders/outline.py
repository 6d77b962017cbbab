"""The paragraphs of a file below its headings, whatever it is written in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Outline", "Paragraph"]


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
