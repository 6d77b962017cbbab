"""The texts of a folder as documents: notes, manuals, web pages, cut into passages.

Plain text, Markdown, reStructuredText and HTML. A passage is some paragraphs of one section, as
long as an encoder reads; its title is the file's with the section's heading. A heading above other
headings, with no text of its own, stands in their titles, and one with nothing below it is a
passage. What cannot be read is named, never passed over in silence.
"""

from __future__ import annotations

import functools
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

from pocketquery.sdk.errors import ArtifactNotFoundError, InvalidInputError
from pocketquery.sdk.files import checked_path
from pocketquery.sdk.index.analysis import UNSPACED
from pocketquery.sdk.index.documents import Document
from pocketquery.sdk.validation import check, whole

__all__ = ["SUFFIXES", "read_folder"]

SUFFIXES = (".txt", ".md", ".markdown", ".rst", ".html", ".htm", "")
"""Of the files that are read; without one it must look like text."""

_MOST_BYTES = 64 << 20  # of one file
_HEADING = re.compile(r"#{1,6}\s+(.*?)[\s#]*$")
_RULE = re.compile(r"(=|-|~|\^|\"|\*|#)\1{2,}\s*$")  # a line that underlines a heading
_FRONT_MATTER = re.compile(r"---\r?\n(.*?)^---\s*?$", re.DOTALL | re.MULTILINE)
_FENCE = re.compile(r"\s*(`{3,}(?=[^`]*$)|~{3,})")  # code between two of them
_DIRECTIVE = re.compile(r"\.\. ([\w:.+-]+)::(?:\s+(\S.*))?$")  # reStructuredText's
_OPTION = re.compile(r"\s+:[^:`]+:(?:\s|$)")  # of a directive
_SILENT_FIELD = re.compile(r":(?:[^:`]+:|tocdepth:.*)\s*$")  # with no text for a reader
_SPEAKING = frozenset(  # directives whose line alone says something to a reader
    "admonition attention caution centered danger deprecated error hint important note rubric "
    "seealso sidebar tip todo topic versionadded versionchanged versionremoved warning "
    "attribute class classmethod confval data decorator describe envvar exception function macro "
    "member method option property staticmethod type var".split()
)
_BLOCKS = frozenset(
    "address article aside blockquote body br caption dd details div dl dt fieldset figcaption "
    "footer form h1 h2 h3 h4 h5 h6 header hr legend li main nav ol optgroup option p pre section "
    "summary table td th tr ul".split()
)
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_UNREAD = frozenset(("script", "style", "template", "noscript", "svg", "math"))


_LONGEST = 100  # characters of a word; a longer one is cut into words of this many:
_CHUNK = 20
_SENTENCE_ENDS = (".", "!", "?", "。", "！", "？", "｡", "।", "؟")


class _Paragraph(NamedTuple):
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


class _Outline:
    """The paragraphs of a file below its headings, none of which is lost."""

    def __init__(self) -> None:
        self.first_heading = ""
        self.paragraphs: list[_Paragraph] = []
        self._open: list[_Section] = []

    def head(self, level: int, heading: str) -> None:
        """A heading; it ends the sections of its own level and of those below."""
        self.end(level)
        self._open.append(_Section(level, heading))
        self.first_heading = self.first_heading or heading

    def add(self, text: str) -> None:
        """A paragraph."""
        self.paragraphs.append(_Paragraph(self._headings(), text))
        if self._open:
            self._open[-1].has_text = True

    def end(self, level: int = 0) -> None:
        """The end of the sections from ``level`` on."""
        if self._open and self._open[-1].level >= level and not self._open[-1].has_text:
            alone = self._open[-1].heading
            self.paragraphs.append(_Paragraph(self._headings(), alone, is_heading=True))
        while self._open and self._open[-1].level >= level:
            self._open.pop()

    def _headings(self) -> tuple[str, ...]:
        above = tuple(section.heading for section in self._open[:-1] if not section.has_text)
        return (*above, self._open[-1].heading) if self._open else ()


def read_folder(
    folder: Path | str,
    *,
    words: int = 120,
    on_skipped: Callable[[Path, str], None] | None = None,
) -> Iterator[Document]:
    """Yield the passages of all text files below ``folder``, in the order of their paths.

    Ids are ``path#number``; metadata has ``title``, ``path`` and ``part`` (from 1). The title is
    the file's with the section's heading, and between them the headings above that have no text of
    their own ("Orchard: Fruit trees: Pruning"); a heading with nothing below it is a passage.
    Fenced code is one paragraph, without headings. Of reStructuredText, labels, comments and
    directives without text are left out. Hidden files and folders, and links to folders, are left
    out.

    Args:
        folder: the folder, or one file.
        words: of a passage, at most; longer paragraphs are cut, at the end of a sentence where
            there is one. In scripts without spaces two characters count as a word, and of a word
            of more than 100 characters 20 do.
        on_skipped: told of each file or folder that is not read, and why; also of files without
            text.

    Raises:
        ArtifactNotFoundError: there is no such folder.
        InvalidInputError: fewer than 10 words; ``folder`` is no path.
    """
    check("words", words, whole(10))
    root = checked_path(folder, "the folder of texts")
    if not root.exists():
        raise ArtifactNotFoundError(f"{root}: found nothing there, expected a folder of texts")
    base = root if root.is_dir() else root.parent

    def skipped(path: Path, error: OSError | InvalidInputError) -> None:
        if on_skipped is not None:
            on_skipped(path, str(getattr(error, "strerror", None) or error))

    for path in _files(root, skipped):
        name = path.relative_to(base).as_posix()
        try:
            text = _read(path, name)
        except (OSError, InvalidInputError) as error:
            skipped(path, error)
            continue
        suffix = path.suffix.lower()
        title, paragraphs = _html(text) if suffix in (".html", ".htm") else _plain(text, suffix)
        if not paragraphs:
            skipped(path, InvalidInputError("no text"))
        title = title or path.stem.replace("_", " ").replace("-", " ")
        told = [p for p in paragraphs if not (p.is_heading and _says(title, p.text))]
        for part, (headings, passage) in enumerate(
            _passages(told or paragraphs[:1], words), start=1
        ):
            metadata = {"title": _whole_title(title, headings), "path": name, "part": part}
            yield Document(f"{name}#{part}", passage, metadata)


def _whole_title(title: str, headings: tuple[str, ...]) -> str:
    above = [heading for heading in headings[:-1] if not _says(title, heading)]
    return ": ".join([title, *above, *(one for one in headings[-1:] if one != title)])


def _says(title: str, heading: str) -> bool:
    """Whether ``heading`` stands in ``title``, word for word."""
    said, words = (re.findall(r"\w+", text.casefold()) for text in (title, heading))
    return f" {' '.join(words)} " in f" {' '.join(said)} "


def _files(root: Path, skipped: Callable[[Path, OSError], None]) -> Iterator[Path]:
    if not root.is_dir():
        yield root
        return

    def unlisted(error: OSError) -> None:
        skipped(Path(error.filename), error)

    for place, folders, names in os.walk(root, onerror=unlisted):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if not name.startswith("."):
                yield Path(place, name)


def _read(path: Path, name: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError as error:  # the name of another system, and part of an id here
        raise InvalidInputError("its name is not UTF-8; rename it") from error
    if path.suffix.lower() not in SUFFIXES:
        raise InvalidInputError(
            f"a {path.suffix} file; expected one of {', '.join(filter(None, SUFFIXES))}"
        )
    if not path.is_file():
        raise InvalidInputError("no plain file")
    if (size := path.stat().st_size) > _MOST_BYTES:
        raise InvalidInputError(f"{size / 1e6:.0f} MB; at most {_MOST_BYTES / 1e6:.0f} are read")
    data = path.read_bytes()
    if b"\0" in data and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InvalidInputError("not text: it has zero bytes")
    encoding = "utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"not {error.encoding} at byte {error.start}; save it as UTF-8"
        ) from error


def _plain(text: str, suffix: str) -> tuple[str, list[_Paragraph]]:
    """Title and paragraphs of plain text, Markdown or reStructuredText."""
    title, outline = "", _Outline()
    if front := _FRONT_MATTER.match(text):
        named = re.search(r"^title:\s*[\"']?(.+?)[\"']?\s*$", front[1], re.MULTILINE)
        title, text = (named[1] if named else ""), text[front.end() :]
    lines, fence, above = list[str](), "", ""  # above: the rule over a heading
    # Of underlined headings; Markdown's are fixed, elsewhere each new kind lies below the others.
    levels = {"=": 1, "-": 2} if suffix in (".md", ".markdown") else dict[str, int]()

    def end() -> None:
        if lines:
            outline.add(" ".join(" ".join(lines).split()))
            lines.clear()

    for line in _without_markup(text.splitlines()) if suffix == ".rst" else text.splitlines():
        opened = None if suffix == ".rst" else _FENCE.match(line)
        rule = _RULE.match(line)
        underlines = rule and len(lines) == 1 and len(line.strip()) >= len(lines[0].strip()) / 2
        if fence:
            lines.append(line)
            if line.strip().startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
                end()
        elif opened and not (underlines and suffix not in (".md", ".markdown")):
            end()
            fence = opened[1]
            lines.append(line)
        elif rule and underlines:
            heading = lines.pop().strip()
            outline.head(levels.setdefault(above + rule[1], len(levels) + 1), heading)
            above = ""
        elif rule:
            end()
            above = rule[1]
        elif found := _HEADING.match(line):
            end()
            level = len(line) - len(line.lstrip("#"))
            if found[1]:
                outline.head(level, found[1])
            else:
                outline.end(level)
        elif line.strip():
            lines.append(line)
        else:
            end()
            above = ""
    end()
    outline.end()
    return title or outline.first_heading, outline.paragraphs


def _without_markup(lines: Sequence[str]) -> Iterator[str]:
    """The lines of reStructuredText, empty ones where a reader of the page sees nothing."""
    at = 0

    def skip(pattern: str | re.Pattern[str]) -> None:
        nonlocal at
        while at < len(lines) and re.match(pattern, lines[at]):
            at += 1

    while at < len(lines):
        line = lines[at]
        at += 1
        if directive := _DIRECTIVE.match(line):
            skip(_OPTION)
            below = next(
                (one for one in map(lines.__getitem__, range(at, len(lines))) if one.strip()), ""
            )
            name, argument = directive.groups()
            speaks = below[:1].isspace() or name in _SPEAKING or ":" in name
            yield line if argument and speaks else ""
        elif line.startswith(".. ") and not line.startswith(".. ["):  # that is a footnote
            skip(r"\s+\S")
            yield ""
        else:
            yield "" if _SILENT_FIELD.match(line) else line


class _Text(HTMLParser):
    """Collects title, headings and the text of blocks."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title = ""
        self.outline = _Outline()
        self._words: list[str] = []
        self._unread = 0
        self._in_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _UNREAD:
            self._unread += 1
        elif tag == "title" and not self._unread:  # an icon has one, too
            self._in_title = True
        elif tag in _BLOCKS:
            self.end()

    def handle_endtag(self, tag: str) -> None:
        if tag in _UNREAD:
            self._unread = max(0, self._unread - 1)
        elif tag == "title":
            self._in_title = False
        elif tag in _HEADINGS:
            if heading := " ".join("".join(self._words).split()):
                self.outline.head(int(tag[1]), heading)
            self._words.clear()
        elif tag in _BLOCKS:
            self.end()

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title = " ".join((self.title + data).split())
        elif not self._unread:
            self._words.append(data)

    def parse_html_declaration(self, i: int) -> int:
        """As a browser does: an unknown ``<![`` is a comment, where HTMLParser fails."""
        if self.rawdata.startswith("<![", i):
            return self.parse_bogus_comment(i)
        return super().parse_html_declaration(i)

    def end(self) -> None:
        """Whatever was collected is a paragraph."""
        if text := " ".join("".join(self._words).split()):
            self.outline.add(text)
        self._words.clear()


def _html(text: str) -> tuple[str, list[_Paragraph]]:
    parser = _Text()
    parser.feed(text)
    parser.close()
    parser.end()
    parser.outline.end()
    return parser.title, parser.outline.paragraphs


class _Piece(NamedTuple):
    """What is never cut: a word with the space behind it, or a letter of an unspaced script."""

    text: str
    cost: int  # in half words


def _passages(
    paragraphs: Iterable[_Paragraph], words: int
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
