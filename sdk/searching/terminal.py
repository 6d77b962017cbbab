"""Hits for a person: file and line, title, words that were found; colours on a terminal alone."""

from __future__ import annotations

import os
import shutil
import sys
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from pocketquery.sdk.commands import one_line
from pocketquery.sdk.results.hits import Hit
from pocketquery.sdk.results.snippet import Snippet

__all__ = ["Page"]

_COLOURS = {"path": "35", "line": "32", "mark": "1;31", "faint": "2"}  # as ripgrep's
_INDENT = "    "
_WIDTH = 160  # columns of a snippet that is not shown on a terminal
_LEAST_WIDTH = 40
_LINES = 2  # of a snippet


class Page:
    """Where hits are printed.

    Args:
        stream: a terminal, or a file or pipe, which gets whole paths and no colours.
        environment: ``NO_COLOR`` and ``TERM=dumb`` turn colours off.
        folder: of the files; paths are shown so that they open from the working folder.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        environment: Mapping[str, str] = os.environ,
        folder: Path | None = None,
    ) -> None:
        self._out = stream or sys.stdout
        terminal = self._out.isatty()
        plain = bool(environment.get("NO_COLOR")) or environment.get("TERM") == "dumb"
        self._colours = terminal and not plain
        columns = shutil.get_terminal_size().columns if terminal else 0
        self._columns = max(columns, _LEAST_WIDTH) if columns else None
        self._folder = folder

    @property
    def snippet_length(self) -> int:
        """Most characters of a snippet."""
        return _WIDTH if self._columns is None else _LINES * (self._columns - len(_INDENT)) - 1

    def show(self, hit: Hit, snippet: Snippet, title: Snippet) -> None:
        """Print one hit."""
        place, line = self._place(hit)
        score = f"  {hit.score:.2f}"
        more = f"  +{hit.others} more" if hit.others else ""
        named, columns = one_line(title.text), self._columns
        if columns is not None:
            room = columns - len(line) - len(score) - len(more)
            place = _shortened(place, max(room, _LEAST_WIDTH // 2))
            room -= _width(place) + 2
            named = "" if room < 8 else _shortened(named, room, of_path=False)
        if named == one_line(title.text):
            named = self._marked(title)
        head = self._coloured("path", place) + self._coloured("line", line)
        head += f"  {named}" if named else ""
        print(head + self._coloured("faint", score + more), file=self._out)
        print(_INDENT + self._marked(snippet), file=self._out)

    def heading(self, text: str) -> None:
        """Print what the hits below were found by."""
        print(self._coloured("mark", f"# {one_line(text)}"), file=self._out)

    def say(self, text: str) -> None:
        """Print a sentence, cut nowhere."""
        print(one_line(text), file=self._out)

    def _place(self, hit: Hit) -> tuple[str, str]:
        path, line = hit.metadata.get("path"), hit.metadata.get("line")
        page = hit.metadata.get("page")
        if not isinstance(path, str) or not path:
            return one_line(hit.id), ""
        if self._folder is not None:
            path = _from_here(str(self._folder / path))
        if isinstance(line, int):
            return one_line(path), f":{line}"
        return one_line(path), f" p.{page}" if isinstance(page, int) else ""

    def _marked(self, snippet: Snippet) -> str:
        """The text with its marks coloured, in lines as wide as the terminal."""
        characters = list(one_line(snippet.text))
        if self._columns is not None:
            for place in _breaks(characters, self._columns - len(_INDENT)):
                characters[place] = f"\n{_INDENT}"
        for start, stop in snippet.marks if self._colours else ():
            characters[start] = f"\x1b[{_COLOURS['mark']}m{characters[start]}"
            characters[stop - 1] += "\x1b[0m"
        return "".join(characters)

    def _coloured(self, colour: str, text: str) -> str:
        return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if text and self._colours else text


def _breaks(characters: list[str], columns: int) -> list[int]:
    """The blanks at which lines of at most so many columns end."""
    breaks, blank, since, width = list[int](), -1, 0, 0
    for place, character in enumerate(characters):
        width += _width(character)
        since += _width(character)
        if character == " ":
            blank, since = place, 0
        if width > columns and blank >= 0:
            breaks.append(blank)
            blank, width = -1, since
    return breaks


def _width(text: str) -> int:
    """Columns of a terminal."""
    return sum(
        0
        if unicodedata.category(one) in ("Mn", "Me", "Cf")
        else 2
        if unicodedata.east_asian_width(one) in "WF"
        else 1
        for one in text
    )


def _shortened(text: str, columns: int, *, of_path: bool = True) -> str:
    """``text`` in so many columns: of a path the beginning goes, of others the end."""
    if _width(text) <= columns:
        return text
    ends = range(1, len(text)) if of_path else range(len(text) - 1, 0, -1)
    for cut in ends:
        shorter = f"…{text[cut:]}" if of_path else f"{text[:cut].rstrip()}…"
        if _width(shorter) <= columns:
            return shorter
    return "…"


def _from_here(path: str) -> str:
    try:
        relative = os.path.relpath(path)
    except ValueError:  # another drive of Windows
        return path
    return path if relative.startswith("..") else relative
