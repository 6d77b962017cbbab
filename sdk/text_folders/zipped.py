"""Word, PowerPoint, OpenDocument and EPUB: archives of XML, read part by part within bounds."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from collections.abc import Iterator
from urllib.parse import unquote
from xml.etree import ElementTree

from pocketquery.sdk.text_folders.decoding import decode
from pocketquery.sdk.text_folders.html_text import read_html
from pocketquery.sdk.text_folders.outline import Line, Outline, UnreadError

__all__ = ["read_docx", "read_epub", "read_odt", "read_pptx"]

_MOST_BYTES = 256 << 20  # of all parts, unpacked
_MOST_ELEMENTS = 5_000_000  # of all parts; each takes some 100 bytes of memory
_MOST_RATIO = 200  # of a part's size to its size in the archive, where it is large
_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_FIELDS = {"creator": "author", "date": "date"}
_OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_TITLE = -1  # the level of Word's style "Title"
_ENCRYPTED = b"\xd0\xcf\x11\xe0"  # Office puts an encrypted file into a container of OLE


class _Archive:
    def __init__(self, data: bytes) -> None:
        if data.startswith(_ENCRYPTED):
            raise UnreadError("encrypted", "encrypted, or of Office before 2007; save it anew")
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
            infos = self._zip.infolist()
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise UnreadError("damaged", f"no whole archive: {error}") from error
        self._left, self._elements = _MOST_BYTES, 0
        self.names = {info.filename for info in infos}
        size = sum(info.file_size for info in infos)
        packed = sum(info.compress_size for info in infos)
        if size > _MOST_BYTES or (size > 16 << 20 and size > _MOST_RATIO * packed):
            raise UnreadError(
                "too large",
                f"it unpacks to {size / 1e6:.0f} MB of {packed / 1e6:.1f}; at most "
                f"{_MOST_BYTES / 1e6:.0f} MB and {_MOST_RATIO} times its size are read",
            )
        if any(info.flag_bits & 1 for info in infos) or "META-INF/encryption.xml" in self.names:
            raise UnreadError("encrypted", "encrypted; save a copy without a password")

    def read(self, name: str) -> bytes:
        try:
            data = self._zip.read(name)
        except Exception as error:  # zlib's, zipfile's, of methods that are not installed
            raise UnreadError("damaged", f"{name} in it cannot be unpacked: {error}") from error
        self._left -= len(data)
        if self._left < 0:  # a book can name one chapter many times
            raise UnreadError("too large", f"more than {_MOST_BYTES / 1e6:.0f} MB of parts")
        return data

    def events(self, name: str) -> Iterator[tuple[str, ElementTree.Element]]:
        """The starts and ends of the elements of a part; none where there is no such part."""
        if name not in self.names:
            return
        source = io.BytesIO(self.read(name))
        try:
            for event, element in ElementTree.iterparse(source, ("start", "end")):
                self._elements += 1
                if self._elements > 2 * _MOST_ELEMENTS:
                    raise UnreadError("too large", f"more than {_MOST_ELEMENTS:,} elements")
                yield event, element
        except (ElementTree.ParseError, ValueError) as error:
            raise UnreadError("damaged", f"{name} in it is no XML: {error}") from error


def _title(archive: _Archive, name: str) -> str:
    """A document's own title, of its properties."""
    for event, element in archive.events(name):
        if event == "end" and element.tag.endswith("}title"):
            return " ".join((element.text or "").split())
    return ""


def read_docx(data: bytes) -> Outline:
    """The sections and paragraphs of a Word document, with its tables, notes and text boxes."""
    archive, outline = _Archive(data), Outline()
    outline.title = _title(archive, "docProps/core.xml")
    levels = _heading_levels(archive)
    for part in ("document", "footnotes", "endnotes"):
        hidden = 0  # text boxes come a second time, for old readers
        for event, element in archive.events(f"word/{part}.xml"):
            if element.tag.endswith("}Fallback"):
                hidden += 1 if event == "start" else -1
                element.clear()
            elif event == "end" and element.tag == f"{_WORD}p" and not hidden:
                style = element.find(f"{_WORD}pPr/{_WORD}pStyle")
                own = element.find(f"{_WORD}pPr/{_WORD}outlineLvl")
                name = _value(style)
                level = levels.get(name, _named_level(name)) or _outline_level(own)
                words = (
                    one.text or "" if one.tag == f"{_WORD}t" else " "
                    for one in element.iter()
                    if one.tag.removeprefix(_WORD) in ("t", "tab", "br", "cr")
                )
                text = " ".join("".join(words).split())
                if level == _TITLE and not outline.paragraphs:
                    outline.title = text
                else:
                    _add(outline, text, abs(level))
                element.clear()
    return outline


def _heading_levels(archive: _Archive) -> dict[str, int]:
    """The level of each style that is a heading; the ids of styles are in the writer's language."""
    levels = dict[str, int]()
    for event, element in archive.events("word/styles.xml"):
        if event == "end" and element.tag == f"{_WORD}style":
            level = _named_level(_value(element.find(f"{_WORD}name")))
            level = level or _outline_level(element.find(f"{_WORD}pPr/{_WORD}outlineLvl"))
            levels[element.get(f"{_WORD}styleId", "")] = level
    return levels


def _named_level(name: str) -> int:
    """Of one of Word's own styles by its name; by its id where a file does not describe it."""
    numbered = re.fullmatch(r"heading ?([1-9])", name.lower())
    return _TITLE if name.lower() == "title" else int(numbered[1]) if numbered else 0


def _value(element: ElementTree.Element | None) -> str:
    return "" if element is None else element.get(f"{_WORD}val", "")


def _outline_level(element: ElementTree.Element | None) -> int:
    """From 1; 0 for body text, which Word calls level 9."""
    return int(_value(element)) + 1 if re.fullmatch("[0-8]", _value(element)) else 0


def _add(outline: Outline, text: str, level: int) -> None:
    words = " ".join(text.split())
    if level and words:
        outline.head(level, words)
    else:
        outline.add([Line(words, 0)])


def read_pptx(data: bytes) -> Outline:
    """The slides of a presentation, a page each, with their notes."""
    archive, outline = _Archive(data), Outline()
    title = _title(archive, "docProps/core.xml")
    outline.title = "" if title.lower().startswith("powerpoint") else title
    slides = _relations(archive, "ppt/presentation.xml")
    shown = [
        slides.get(element.get(f"{_RELATION}id", ""), "")
        for event, element in archive.events("ppt/presentation.xml")
        if event == "end" and element.tag.endswith("}sldId")
    ]
    for outline.page, slide in enumerate(shown, 1):
        _add_slide(archive, outline, slide)
        for target in _relations(archive, slide).values():
            if "/notesSlides/" in target:
                _add_slide(archive, outline, target)
        outline.end()
    return outline


def _relations(archive: _Archive, part: str) -> dict[str, str]:
    """What the part refers to, by id."""
    folder, name = posixpath.split(part)
    return {
        element.get("Id", ""): posixpath.normpath(
            posixpath.join(f"/{folder}", element.get("Target", ""))
        )[1:]
        for event, element in archive.events(f"{folder}/_rels/{name}.rels")
        if event == "end" and element.tag.endswith("}Relationship")
    }


def _add_slide(archive: _Archive, outline: Outline, name: str) -> None:
    kind, words = "", list[str]()
    for event, element in archive.events(name):
        tag = element.tag.rpartition("}")[2]
        if tag == "sp" and event == "start":
            kind = ""
        elif event == "start":
            continue
        elif tag == "ph":
            kind = element.get("type", "body")
        elif tag in ("t", "br"):
            words.append(element.text or " ")
        elif tag == "p":
            if kind not in ("sldNum", "dt", "ftr", "hdr"):
                _add(outline, "".join(words), 2 if kind in ("title", "ctrTitle") else 0)
            words.clear()


def read_odt(data: bytes) -> Outline:
    """The sections and paragraphs of a text of OpenDocument."""
    archive, outline = _Archive(data), Outline()
    outline.title = _title(archive, "meta.xml")
    hidden = 0
    for event, element in archive.events("content.xml"):
        tag = element.tag.removeprefix(_OFFICE)
        if tag == "tracked-changes":  # what was deleted
            hidden += 1 if event == "start" else -1
        elif event == "start":
            continue
        elif tag in ("s", "tab", "line-break"):
            element.text = " "
        elif tag in ("p", "h"):
            level = element.get(f"{_OFFICE}outline-level", "1") if tag == "h" else "0"
            if not hidden:
                _add(outline, "".join(element.itertext()), int(level) if level.isdigit() else 1)
            element.clear()
    return outline


def read_epub(data: bytes) -> Outline:
    """The sections and paragraphs of a book, chapter by chapter."""
    archive, outline = _Archive(data), Outline()
    packages = [
        element.get("full-path", "")
        for event, element in archive.events("META-INF/container.xml")
        if event == "end" and element.tag.endswith("}rootfile")
    ]
    package = packages[0] if packages else ""
    places, fields, chapters = dict[str, str](), dict[str, str](), list[str]()
    for event, element in archive.events(package):
        tag = element.tag.rpartition("}")[2]
        if event == "end" and tag == "item":
            places[element.get("id", "")] = element.get("href", "")
        elif event == "end" and tag == "itemref":
            chapters.append(places.get(element.get("idref", ""), ""))
        elif event == "end" and tag in ("title", "creator", "date") and element.text:
            fields.setdefault(tag, " ".join(element.text.split()))
    for chapter in chapters:
        name = posixpath.normpath(posixpath.join(posixpath.dirname(package), unquote(chapter)))
        if name in archive.names:
            read_html(decode(archive.read(name)), outline, has_lines=False)
    outline.title = fields.pop("title", "")
    outline.fields = {_FIELDS[name]: value for name, value in fields.items()}
    return outline
