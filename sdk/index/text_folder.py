"""The texts of a folder as documents: notes, manuals, web pages, cut into passages.

Plain text, Markdown, reStructuredText and HTML. A passage is some paragraphs of one section, as
long as an encoder reads; its title is the file's with the section's heading. What cannot be read is
named, never passed over in silence.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

from pocketquery.sdk.errors import ArtifactNotFoundError, InvalidInputError
from pocketquery.sdk.index.documents import Document
from pocketquery.sdk.validation import check, whole

__all__ = ["SUFFIXES", "read_folder"]

SUFFIXES = (".txt", ".md", ".markdown", ".rst", ".html", ".htm", "")
"""Of the files that are read; without one it must look like text."""

_MOST_BYTES = 64 << 20  # of one file
_HEADING = re.compile(r"#{1,6}\s+(.*?)[\s#]*$")
_RULE = re.compile(r"(=|-|~|\^|\"|\*|#)\1{2,}\s*$")  # a line that underlines a heading
_FRONT_MATTER = re.compile(r"---\r?\n(.*?)^---\s*?$", re.DOTALL | re.MULTILINE)
_BLOCKS = frozenset(
    "address article aside blockquote body br caption dd details div dl dt fieldset figcaption "
    "footer form h1 h2 h3 h4 h5 h6 header hr legend li main nav ol optgroup option p pre section "
    "summary table td th tr ul".split()
)
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_UNREAD = frozenset(("script", "style", "template", "noscript", "svg", "math"))


class _Paragraph(NamedTuple):
    heading: str
    text: str


def read_folder(
    folder: Path | str,
    *,
    words: int = 120,
    on_skipped: Callable[[Path, str], None] | None = None,
) -> Iterator[Document]:
    """Yield the passages of all text files below ``folder``, in the order of their paths.

    Ids are ``path#number``; metadata has ``title``, ``path`` and ``part`` (from 1). Hidden files
    and folders, and links to folders, are left out.

    Args:
        folder: the folder, or one file.
        words: of a passage, at most, where no paragraph is longer; a longer one is cut.
        on_skipped: told of each file or folder that is not read, and why.

    Raises:
        ArtifactNotFoundError: there is no such folder.
        InvalidInputError: fewer than 10 words.
    """
    check("words", words, whole(10))
    root = Path(folder)
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
        is_html = path.suffix.lower() in (".html", ".htm")
        title, paragraphs = _html(text) if is_html else _plain(text)
        title = title or path.stem.replace("_", " ").replace("-", " ")
        for part, (heading, passage) in enumerate(_passages(paragraphs, words), start=1):
            whole_title = title if heading in ("", title) else f"{title}: {heading}"
            metadata = {"title": whole_title, "path": name, "part": part}
            yield Document(f"{name}#{part}", passage, metadata)


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


def _plain(text: str) -> tuple[str, list[_Paragraph]]:
    """Title and paragraphs of plain text, Markdown or reStructuredText."""
    title, heading = "", ""
    if front := _FRONT_MATTER.match(text):
        named = re.search(r"^title:\s*[\"']?(.+?)[\"']?\s*$", front[1], re.MULTILINE)
        title, text = (named[1] if named else ""), text[front.end() :]
    paragraphs, lines = list[_Paragraph](), list[str]()

    def end() -> None:
        if lines:
            paragraphs.append(_Paragraph(heading, " ".join(" ".join(lines).split())))
            lines.clear()

    for line in text.splitlines():
        found = _HEADING.match(line)
        if _RULE.match(line) and len(lines) == 1 and len(line.strip()) >= len(lines[0].strip()) / 2:
            found_heading: str | None = lines.pop().strip()
        elif _RULE.match(line):
            end()
            continue
        else:
            found_heading = found[1] if found else None
        if found_heading is not None:
            end()
            heading = found_heading
            title = title or heading
        elif line.strip():
            lines.append(line)
        else:
            end()
    end()
    return title, paragraphs


class _Text(HTMLParser):
    """Collects title, headings and the text of blocks."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title = ""
        self.paragraphs: list[_Paragraph] = []
        self._heading = ""
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
            self._heading = " ".join("".join(self._words).split()) or self._heading
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
            self.paragraphs.append(_Paragraph(self._heading, text))
        self._words.clear()


def _html(text: str) -> tuple[str, list[_Paragraph]]:
    parser = _Text()
    parser.feed(text)
    parser.close()
    parser.end()
    return parser.title, parser.paragraphs


def _passages(paragraphs: Iterable[_Paragraph], words: int) -> Iterator[_Paragraph]:
    """Neighbouring paragraphs of one section joined, and long ones cut, to ``words`` words."""
    heading, kept = "", list[str]()
    for paragraph in paragraphs:
        parts = paragraph.text.split()
        if kept and (paragraph.heading != heading or len(kept) + len(parts) > words):
            yield _Paragraph(heading, " ".join(kept))
            kept = []
        heading = paragraph.heading
        kept += parts
        while len(kept) > words:
            cut = _cut(kept, words)
            yield _Paragraph(heading, " ".join(kept[:cut]))
            kept = kept[cut:]
    if kept:
        yield _Paragraph(heading, " ".join(kept))


def _cut(parts: list[str], words: int) -> int:
    """Where to cut: after the last sentence that ends in the second half, else at ``words``."""
    for place in range(words, words // 2, -1):
        if parts[place - 1].endswith((".", "!", "?", "。", "।", "؟")):
            return place
    return words
